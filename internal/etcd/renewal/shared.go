package renewal

import (
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// sharedRenewers holds the renewer of each client that has sessions. The code that opens a session knows only the
// client and not its other users.
var sharedRenewers = struct {
	sync.Mutex
	renewers map[*clientv3.Client]*countedRenewer
}{renewers: map[*clientv3.Client]*countedRenewer{}}

type countedRenewer struct {
	*Renewer
	users int
}

// Acquire returns the renewer of all sessions on a client. Each caller must call release once. The last release
// closes the renewer, and blocks until its goroutines have ended.
func Acquire(client *clientv3.Client) (r *Renewer, release func()) {
	sharedRenewers.Lock()
	defer sharedRenewers.Unlock()
	c := sharedRenewers.renewers[client]
	if c == nil {
		c = &countedRenewer{Renewer: newRenewer(client)}
		sharedRenewers.renewers[client] = c
	}
	c.users++
	return c.Renewer, func() {
		sharedRenewers.Lock()
		c.users--
		last := c.users == 0
		if last {
			delete(sharedRenewers.renewers, client)
		}
		sharedRenewers.Unlock()
		if last {
			c.close()
		}
	}
}
