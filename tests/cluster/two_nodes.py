"""A Ray cluster of two raylets, or as many as told, on the loopback address, for tests and benchmarks.

Says where it is, and ends with its standard input: python tests/cluster/two_nodes.py [NODES]
"""

import json
import os
import sys


def main() -> None:
    """Start the nodes, say where they are, and wait."""
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # listen on the loopback address alone
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    options = {"num_cpus": 1, "object_store_memory": 128 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**options, "include_dashboard": False})
    nodes = [cluster.head_node, *(cluster.add_node(**options) for _ in range(int((sys.argv[1:] or ["2"])[0]) - 1))]
    raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
    sys.stdout.write(json.dumps({"address": cluster.address, "raylets": raylets}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
