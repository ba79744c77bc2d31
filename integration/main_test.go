//go:build unix

package integration

import (
	"os"
	"testing"

	"github.com/goverse/goverse/integration/internal/chaos"
	"github.com/goverse/goverse/integration/internal/procs"
)

var kit *procs.Kit

func TestMain(m *testing.M) {
	if config, asked := os.LookupEnv(chaos.ProgramEnv); asked {
		os.Exit(chaos.Program(config))
	}
	if config, asked := os.LookupEnv(holderEnv); asked {
		os.Exit(runHolder(config))
	}
	if config, asked := os.LookupEnv(workerEnv); asked {
		os.Exit(workerProgram(config))
	}
	if config, asked := os.LookupEnv(faultyEnv); asked {
		os.Exit(faultyProgram(config))
	}
	procs.Main(m, &kit)
}

// onEach runs a scenario against each flavour of etcd.
func onEach(t *testing.T, scenario func(t *testing.T, flavour procs.Flavour)) {
	for _, flavour := range procs.Flavours() {
		t.Run(string(flavour), func(t *testing.T) { scenario(t, flavour) })
	}
}
