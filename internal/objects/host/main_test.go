package host

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limited returns cfg with the limits that it leaves open.
func limited(cfg Config) Config {
	cfg.IdleAfter = orDefault(cfg.IdleAfter, 10*time.Minute)
	cfg.MaxActive = orDefault(cfg.MaxActive, 1<<20)
	cfg.MaxQueue = orDefault(cfg.MaxQueue, 1024)
	cfg.MaxWaiting = orDefault(cfg.MaxWaiting, 1<<18)
	cfg.MaxMessage = orDefault(cfg.MaxMessage, 4<<20)
	cfg.ActivationTimeout = orDefault(cfg.ActivationTimeout, 10*time.Second)
	cfg.DrainTimeout = orDefault(cfg.DrainTimeout, 10*time.Second)
	return cfg
}
