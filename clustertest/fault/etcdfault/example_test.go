package etcdfault_test

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/clustertest/fault/etcdfault"
)

// A node gets a client whose next write of a key below /jobs/ fails. That request is not sent, so this example needs
// no etcd.
func ExampleInject() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:2379"}, Logger: zap.NewNop()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }()
	faults := etcdfault.Inject(client)
	faults.FailNext(etcdfault.OpPut, errors.New("no space left"), etcdfault.Putting("/jobs/"))

	_, err = client.Put(context.Background(), "/jobs/1", "new") // or a node with Config.Client
	fmt.Println(err)
	// Output: no space left
}
