"""Adds to a counter, through any node of the cluster, and prints its sum; see README.md.

    python3 client.py NODE KEY AMOUNT
"""

import sys

import counter_pb2
import counter_pb2_grpc
import grpc

node, key, amount = sys.argv[1], sys.argv[2], int(sys.argv[3])
with grpc.insecure_channel(node) as channel:
    counters = counter_pb2_grpc.CounterStub(channel)
    try:
        reply = counters.Add(
            counter_pb2.AddRequest(amount=amount),
            metadata=[("goverse-key", key)],
            timeout=10,
        )
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
    print(reply.sum)
