// Etcd is the server of etcd 3.6, for tests of Goverse on it:
//
//	go build -C compat/etcd36 -o ../../bin/etcd36 .
//	go test ./integration -run TestEtcdVersions -etcd.binary $PWD/bin/etcd36
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
