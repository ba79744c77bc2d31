#!/bin/sh
# cluster.sh start: starts three nodes of ./stock. restart: restarts one after the other. stop: stops them.
# DB is the URL of the database.
start() { # start NUMBER: starts a node, and waits until it is ready
  ./stock -db "$DB" -listen "127.0.0.1:4701$1" -http "127.0.0.1:4801$1" 2>>"node$1.log" &
  echo $! >"node$1.pid"
  until curl -fs "http://127.0.0.1:4801$1/readyz" >/dev/null; do sleep 0.2; done
  echo "node $1 is ready"
}
stop() { # stop NUMBER: stops a node in order, and waits until it has ended
  kill "$(cat "node$1.pid")"
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
