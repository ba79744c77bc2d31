package redis

import (
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/goverse/goverse/cluster/elector"
)

// maxKey is the limit of the other stores' names, too.
const maxKey = 512

// Config configures a [Store]. Both fields are required.
type Config struct {
	// Client is a client of one server, of Sentinel, or of a cluster, with ContextTimeoutEnabled: otherwise a request
	// that is not answered outlasts its deadline. It is never closed. It must not be a *redis.Ring, which moves a key
	// to another server when one does not answer.
	Client goredis.UniversalClient
	// Key is the key of the record, of at most 512 bytes: candidates with the same server, database, and Key compete.
	// Nothing else may use the key.
	Key string
}

// Validate returns an error that matches elector.ErrBadConfig if the configuration is invalid.
func (c Config) Validate() error {
	deadlines := true
	switch client := c.Client.(type) {
	case nil:
		return fmt.Errorf("%w: redis.Config.Client is nil; make one with NewUniversalClient of go-redis",
			elector.ErrBadConfig)
	case *goredis.Ring:
		return fmt.Errorf("%w: redis.Config.Client is a Ring, which moves the record to another server when one does "+
			"not answer; use a client of one server, of Sentinel, or of a cluster", elector.ErrBadConfig)
	case *goredis.Client:
		deadlines = client.Options().ContextTimeoutEnabled
	case *goredis.ClusterClient:
		deadlines = client.Options().ContextTimeoutEnabled
	}
	switch {
	case !deadlines:
		return fmt.Errorf("%w: redis.Config.Client ignores deadlines; set ContextTimeoutEnabled in its options",
			elector.ErrBadConfig)
	case c.Key == "":
		return fmt.Errorf("%w: redis.Config.Key is empty; name the task in it, as in reports:lease",
			elector.ErrBadConfig)
	case len(c.Key) > maxKey:
		return fmt.Errorf("%w: redis.Config.Key has %d bytes; give it at most %d", elector.ErrBadConfig, len(c.Key),
			maxKey)
	}
	return nil
}
