package fault_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"

	"github.com/goverse/goverse/clustertest/fault"
)

// A client of a server that refuses connections for a while. In front of etcd or of a node, a relay shows how a program
// survives the same.
func ExampleRelay() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))
	defer server.Close()
	relay, err := fault.NewRelay(server.Listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer relay.Close()
	dial := func() error {
		conn, err := net.Dial("tcp", relay.Address())
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	fmt.Println("reachable:", dial() == nil)
	relay.Refuse()
	fmt.Println("reachable:", dial() == nil)
	fmt.Println("healed:", relay.Heal() == nil)
	fmt.Println("reachable:", dial() == nil)
	// Output:
	// reachable: true
	// reachable: false
	// healed: true
	// reachable: true
}
