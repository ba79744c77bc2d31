package host

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limited returns cfg with the limits that it leaves open.
func limited(cfg Config) Config {
	cfg.IdleAfter = or(cfg.IdleAfter, 10*time.Minute)
	cfg.MaxActive = or(cfg.MaxActive, 1<<20)
	cfg.MaxQueue = or(cfg.MaxQueue, 1024)
	cfg.MaxWaiting = or(cfg.MaxWaiting, 1<<18)
	cfg.MaxMessage = or(cfg.MaxMessage, 4<<20)
	cfg.ActivationTimeout = or(cfg.ActivationTimeout, 10*time.Second)
	cfg.DrainTimeout = or(cfg.DrainTimeout, 10*time.Second)
	return cfg
}
