"""The transformers library, which is optional: imported when it is needed, kept quiet, running no code of a model."""

from __future__ import annotations

import importlib
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from shiftproof.errors import ModelError, UsageError

__all__ = [
    "build_module",
    "first_line",
    "folder_of",
    "gives_segments",
    "import_library",
    "load_module",
    "plain_config",
    "quiet",
    "read_config",
    "read_tokenizer",
    "tokenizer_content",
]

FETCHED = ("*.json", "*.safetensors", "*.txt", "*.model")
"""What is fetched of a model of the hub: no pickles, no code."""
_TOKENIZER_FILES = ("tokenizer.json", "vocab.*", "*.model", "merges.txt", "*.tiktoken")
"""Any of these is a tokenizer's vocabulary."""
_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_NOT_KEPT = {"auto_map", "quantization_config", "transformers_version", "torch_dtype", "dtype", "use_kernels"}


def import_library(name: str) -> Any:
    """A package of the extra `text`."""
    # one process a core computes; threads of the tokeniser would compete with the others, and it warns when forked
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        return importlib.import_module(name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            raise UsageError(
                f"this model needs the package {name}, which is not installed here: pip install 'shiftproof[text]'"
            ) from error
        raise UsageError(f"the package {name} can't be imported here: {first_line(error)}") from error


def folder_of(spec: str) -> Path:
    """The folder that hf:NAME_OR_PATH means; a model of the hub is fetched to the hub's own cache, unless it is there.

    A folder of this machine comes before a model of the hub with the same name.
    """
    name = spec.removeprefix("hf:")
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(f"{path} holds no config.json: it is no folder that save_pretrained wrote")
        return path
    if not _HUB_NAME.fullmatch(name):
        raise ModelError(f"there is no folder {path}, and {name!r} is no name of a model of the hub")
    hub = import_library("huggingface_hub")
    try:
        try:
            return Path(hub.snapshot_download(name, allow_patterns=FETCHED, local_files_only=True))
        except FileNotFoundError:
            return Path(hub.snapshot_download(name, allow_patterns=FETCHED))
    except Exception as error:
        raise ModelError(
            f"there is no folder {name!r} here, and no model of this name comes from the hub ({first_line(error)}); "
            "hf:PATH takes a folder that save_pretrained wrote"
        ) from error


def read_config(folder: Path) -> Any:
    """The configuration in a folder."""
    return _called(folder, import_library("transformers").AutoConfig.from_pretrained, local_files_only=True)


def read_tokenizer(folder: Path) -> Any:
    """The tokenizer in a folder; where there are no files of one, the library would make up one that knows no word."""
    if not any(path for pattern in _TOKENIZER_FILES for path in folder.glob(pattern)):
        raise ModelError(
            f"{folder} holds no tokenizer (tokenizer.json, vocab.txt or the like): save it there as well, "
            f"tokenizer.save_pretrained({str(folder)!r})"
        )
    return _called(folder, import_library("transformers").AutoTokenizer.from_pretrained, local_files_only=True)


def gives_segments(tokenizer: Any) -> bool:
    """Whether its models are told which part of a pair a token belongs to."""
    return "token_type_ids" in getattr(tokenizer, "model_input_names", ["token_type_ids"])


def tokenizer_content(tokenizer: Any) -> str:
    """The tokenizer.json of a tokenizer of transformers, or of the tokenizers library."""
    fast = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not callable(getattr(fast, "to_str", None)):
        raise ModelError(
            f"the tokenizer is a {type(tokenizer).__name__}; only those with a tokenizer.json (fast ones) can be read"
        )
    return str(fast.to_str())


def load_module(folder: Path, config: Any, *, classifier: bool) -> Any:
    """The encoder or the sequence classifier in a folder, in float32; a weight that is missing is an error."""
    transformers = import_library("transformers")
    auto = transformers.AutoModelForSequenceClassification if classifier else transformers.AutoModel
    module, loading = _called(
        folder, auto.from_pretrained, config=config, local_files_only=True, output_loading_info=True,
        dtype=torch.float32, attn_implementation=_attention(auto, config),
    )  # fmt: skip
    missing = sorted(name for name in loading["missing_keys"] if not name.startswith("pooler.") or classifier)
    if missing:
        raise ModelError(f"{folder} has no weights for {missing[0]!r} of a {type(module).__name__}")
    return module


def build_module(config: Mapping[str, Any], *, classifier: bool) -> Any:
    """A freshly initialised module from a configuration as it is kept; no code but the library's own is run."""
    transformers = import_library("transformers")
    auto = transformers.AutoModelForSequenceClassification if classifier else transformers.AutoModel
    kept = plain_config(config)
    try:
        with quiet():
            made = transformers.AutoConfig.for_model(**kept)
            return auto.from_config(made, trust_remote_code=False, attn_implementation=_attention(auto, made))
    except Exception as error:
        raise ModelError(f"transformers can't build a {kept.get('model_type')!r}: {first_line(error)}") from error


def plain_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without what could make the library fetch or run something: code, kernels, names of places."""
    return {
        key: plain_config(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key not in _NOT_KEPT and not str(key).startswith("_") and "attn_implementation" not in str(key)
    }


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".:")


def _attention(auto: Any, config: Any) -> str:
    """The library's own attention; a configuration may name one that would be fetched."""
    kind = auto._model_mapping.get(type(config), None)
    kind = kind[0] if isinstance(kind, tuple) else kind
    return "sdpa" if getattr(kind, "_supports_sdpa", False) else "eager"


def _called(folder: Path, load: Any, **options: Any) -> Any:
    try:
        with quiet():
            return load(str(folder), trust_remote_code=False, **options)
    except Exception as error:
        raise ModelError(f"transformers can't read {folder}: {first_line(error)}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Without the library's progress bars, advice and warnings."""
    logging = import_library("transformers").utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
