"""Kinds of networks by name, one file an architecture."""

from shiftproof.models.networks.architecture import MODELS, Architecture
from shiftproof.models.networks.cnn import CNN
from shiftproof.models.networks.cnn_cayley import CNNCayley
from shiftproof.models.networks.efficientnet import EfficientNetLite0
from shiftproof.models.networks.lenet import LeNet
from shiftproof.models.networks.minilm import MiniLM
from shiftproof.models.networks.mlp import MLP
from shiftproof.models.networks.mlp_cayley import MLPCayley
from shiftproof.models.networks.resnet import PreActResNet18
from shiftproof.models.networks.text_cnn import TextCNN
from shiftproof.models.networks.text_transformer import TextTransformer
from shiftproof.models.networks.wide_resnet import WideResNet

__all__ = [
    "CNN",
    "MLP",
    "MODELS",
    "Architecture",
    "CNNCayley",
    "EfficientNetLite0",
    "LeNet",
    "MLPCayley",
    "MiniLM",
    "PreActResNet18",
    "TextCNN",
    "TextTransformer",
    "WideResNet",
]
