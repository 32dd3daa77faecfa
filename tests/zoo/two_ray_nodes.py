"""Two Ray nodes on the loopback interface, of one core each; a line on stdin kills the second one.

Prints the head's address, then the second node's id; then ``killed`` when it is dead.
"""

import os
import sys

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from ray.cluster_utils import Cluster

LOOPBACK = "127.0.0.2"  # Ray replaces 127.0.0.1 by the machine's own address
MEMORY = 100 * 2**20


def main() -> None:
    cluster = Cluster()
    try:
        cluster.add_node(
            node_ip_address=LOOPBACK, num_cpus=1, object_store_memory=MEMORY, include_dashboard=False
        )
        second = cluster.add_node(node_ip_address=LOOPBACK, num_cpus=1, object_store_memory=MEMORY)
        cluster.wait_for_nodes()
        print(cluster.address, second.node_id, flush=True)
        if sys.stdin.readline():
            cluster.remove_node(second, allow_graceful=False)
            print("killed", flush=True)
            sys.stdin.readline()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
