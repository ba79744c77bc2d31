// Etcd is the server of etcd 3.5, for tests of Goverse on it:
//
//	go build -C compat/etcd35 -o ../../bin/etcd35 .
//	go test ./integration -run TestEtcdVersions -etcd.binary $PWD/bin/etcd35
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
