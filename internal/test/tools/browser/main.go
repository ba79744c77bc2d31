// Browser controls Chromium for package internal/test/browser. It serves JSON-RPC on its standard streams, and ends
// with Chromium when its input ends.
package main

import (
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
)

func main() {
	b := &Browser{tabs: map[int]*tab{}}
	server := rpc.NewServer()
	if err := server.Register(b); err != nil {
		panic(err) // its methods do not fit
	}
	server.ServeCodec(jsonrpc.NewServerCodec(streams{os.Stdin, os.Stdout}))
	b.end()
}

// streams joins the standard streams. Its Close does nothing: the end of the process closes them.
type streams struct {
	io.Reader
	io.Writer
}

func (streams) Close() error { return nil }
