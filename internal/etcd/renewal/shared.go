package renewal

import (
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// shared holds the renewer of each client that has sessions. The code that opens a session knows only the
// client and not its other users.
var shared = struct {
	sync.Mutex
	renewers map[*clientv3.Client]*counted
}{renewers: map[*clientv3.Client]*counted{}}

type counted struct {
	*Renewer
	users int
}

// Share returns the renewer of all sessions on a client. Each caller must call release once. The last release
// closes the renewer, and blocks until its goroutines have ended.
func Share(client *clientv3.Client) (r *Renewer, release func()) {
	shared.Lock()
	defer shared.Unlock()
	c := shared.renewers[client]
	if c == nil {
		c = &counted{Renewer: newRenewer(client)}
		shared.renewers[client] = c
	}
	c.users++
	return c.Renewer, func() {
		shared.Lock()
		c.users--
		last := c.users == 0
		if last {
			delete(shared.renewers, client)
		}
		shared.Unlock()
		if last {
			c.close()
		}
	}
}
