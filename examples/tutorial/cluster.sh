#!/bin/sh
# cluster.sh start: starts three nodes of ./stock. restart: restarts one after the other. stop: stops them.
start() { # start NUMBER: starts a node, and waits until it is ready
  : "${DB:?is not set: the URL of the database}"
  ./stock -db "$DB" -listen "127.0.0.1:4701$1" -http "127.0.0.1:4801$1" 2>>"node$1.log" &
  echo $! >"node$1.pid"
  until curl -fs "http://127.0.0.1:4801$1/readyz" >/dev/null; do
    kill -0 $! 2>/dev/null || { tail -n 1 "node$1.log" && exit 1; } # the node has ended
    sleep 0.2
  done
  echo "node $1 is ready"
}
stop() { # stop NUMBER: stops a node in order, and waits until it has ended
  kill "$(cat "node$1.pid")" 2>/dev/null # fails if the node was killed before
  while curl -fs "http://127.0.0.1:4801$1/livez" >/dev/null; do sleep 0.2; done
}
for i in 1 2 3; do
  case $1 in
  start) start $i ;;
  restart)
    stop $i
    start $i
    sleep 3 # meanwhile the node gets its share of the shards again
    ;;
  stop) stop $i ;;
  esac
done
