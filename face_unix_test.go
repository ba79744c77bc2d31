//go:build unix

package goverse

import (
	"io"

	"github.com/goverse/goverse/clustertest/fault"
)

var _ io.Closer = (*fault.Process)(nil)
