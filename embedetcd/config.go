package embedetcd

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/crypto/bcrypt"

	"github.com/goverse/goverse/internal/logs/logqueue"
)

// What Start can fail with, beside the end of its context. Compare with errors.Is;
// the message is one line that names the remedy, and the cause is wrapped.
var (
	// ErrConfig: a field of Config is wrong.
	ErrConfig = errors.New("bad etcd configuration")
	// ErrDataDir: the data directory cannot be used, for the reason of one of the next
	// two or because this user may not create, read and write it.
	ErrDataDir = errors.New("etcd data directory cannot be used")
	// ErrDataDirInUse: another server uses the directory. It matches ErrDataDir.
	ErrDataDirInUse = fmt.Errorf("%w: another running server uses it", ErrDataDir)
	// ErrDamaged: etcd's database in it is damaged. It matches ErrDataDir.
	ErrDamaged = fmt.Errorf("%w: its database is damaged", ErrDataDir)
	// ErrAddressInUse: another socket is bound to a wanted address.
	ErrAddressInUse = errors.New("address already in use")
	// ErrMemberLost: the other members of the cluster know this one, and its data directory
	// is empty: it would vote a second time on what it has confirmed already. See Start.
	ErrMemberLost = errors.New("the data of this member of etcd is lost")
	// ErrPeerAddress: the data is of a member with another peer address than that in Peers. It
	// matches ErrConfig.
	ErrPeerAddress = fmt.Errorf("%w: the member has another peer address", ErrConfig)
	// ErrNotMember: the other members do not know this one.
	ErrNotMember = errors.New("this is no member of the etcd cluster")
	// ErrRemoved: they do not any more: it was removed, and its data is of no use. It matches ErrNotMember.
	ErrRemoved = fmt.Errorf("%w any more", ErrNotMember)
)

// A DisagreeError is another member that was given other Peers or another Token. It matches ErrConfig.
type DisagreeError struct {
	Member       string // its name, by the Peers here
	Theirs, Ours string // the members, and the token
}

// Error names the member, and both configurations.
func (e *DisagreeError) Error() string {
	return fmt.Sprintf("embedetcd: %v: Peers and Token of %s are %s, and here %s: give all members the same", ErrConfig,
		e.Member, e.Theirs, e.Ours)
}

// Unwrap is ErrConfig.
func (e *DisagreeError) Unwrap() error { return ErrConfig }

// Config describes one etcd server. The zero value works: a free port of 127.0.0.1
// and a temporary directory.
type Config struct {
	// DataDir keeps etcd's data across restarts; it is created if missing. Empty: a
	// temporary directory that Close removes.
	DataDir string

	// ListenClient is the host:port where clients connect. The host is an IP address,
	// "localhost", or empty for every interface. Port 0 picks a free port.
	// Default 127.0.0.1:0.
	ListenClient string

	// Name is the member's name in etcd's own cluster. Default "goverse".
	Name string

	// AdvertiseClient is the host:port at which clients of other machines reach this
	// member; clients that ask any member for the addresses of all get it. Default:
	// ListenClient, or this machine's own 127.0.0.1 if that is every interface.
	AdvertiseClient string

	// ClientTLS is for the connections of clients. With CAFile clients must show a
	// certificate of one of its authorities. The zero value: plain text.
	ClientTLS TLS

	// Peers makes this server one member of an etcd cluster: the host:port for
	// etcd's own traffic of every member, by member name, this one included. All
	// members must be given the same. How the cluster begins, and what a member does
	// whose data is lost, is described at Start. Empty: the only member, without a peer port.
	Peers map[string]string

	// ListenPeer is the host:port at which this member listens to the others. Default: its
	// address in Peers.
	ListenPeer string

	// PeerTLS is for the connections between the members: all three files, the certificate
	// for both sides. Its hosts must be those of Peers. The zero value: plain text.
	PeerTLS TLS

	// Token tells clusters apart, so that their members never mix. All members must be given
	// the same. Default "goverse". Clusters that were built one after the other with the same
	// Peers differ by themselves: a part of the cluster id is random.
	Token string

	// HeartbeatInterval is how often etcd's leader shows itself to its members, and
	// the unit of etcd's internal clock, in whole milliseconds. Default 100 ms.
	HeartbeatInterval time.Duration

	// ElectionTimeout is how long etcd's members wait for a heartbeat before they
	// elect another, in whole milliseconds, from 5 heartbeats to 50 s. Default 1 s. It also
	// sets the smallest lease TTL that etcd grants: 1.5 times this, rounded up to a
	// whole second, so 2 s by default.
	ElectionTimeout time.Duration

	// UnsafeNoFsync leaves writes to the operating system's cache: much faster, and
	// a crash of the machine (not of the process) can lose acknowledged data.
	UnsafeNoFsync bool

	// BcryptCost says how hard it is to check a password of etcd's access control, from
	// 4 to 31; each one more doubles the work. Every client's is checked again after
	// each change of a right. Default 10, as etcd's.
	BcryptCost int

	// Logger receives etcd's log, its info as debug. Nil: nothing is logged.
	Logger hclog.Logger

	// together says that all members are new, and that nobody needs to be asked about it.
	together bool
}

// TestTiming returns cfg with the timing that suits tests: heartbeats of 10 ms, an
// election time-out of 100 ms, which lets leases have a TTL of 1 s, no fsync, and
// passwords that are cheap to check. A
// server with it serves within milliseconds; a machine too busy to schedule it for
// 100 ms can make a cluster of several members change its leader.
func TestTiming(cfg Config) Config {
	cfg.HeartbeatInterval = 10 * time.Millisecond
	cfg.ElectionTimeout = 100 * time.Millisecond
	cfg.UnsafeNoFsync = true
	cfg.BcryptCost = bcrypt.MinCost
	return cfg
}

// withDefaults fills the fields left empty.
func (c Config) withDefaults() Config {
	if c.ListenClient == "" {
		c.ListenClient = "127.0.0.1:0"
	}
	if c.Name == "" {
		c.Name = "goverse"
	}
	if c.Token == "" {
		c.Token = "goverse"
	}
	if c.HeartbeatInterval == 0 {
		c.HeartbeatInterval = 100 * time.Millisecond
	}
	if c.ElectionTimeout == 0 {
		// Keeps etcd's own proportion also when only the heartbeat was changed.
		c.ElectionTimeout = 10 * c.HeartbeatInterval
	}
	if c.BcryptCost == 0 {
		c.BcryptCost = bcrypt.DefaultCost
	}
	c.Logger = logqueue.New(c.Logger)
	return c
}

// Validate checks the fields and how they relate, defaults filled in, and touches
// nothing. Its errors match ErrConfig.
func (c Config) Validate() error {
	c = c.withDefaults()
	if err := checkListen("ListenClient", c.ListenClient); err != nil {
		return err
	}
	for field, d := range map[string]time.Duration{"HeartbeatInterval": c.HeartbeatInterval,
		"ElectionTimeout": c.ElectionTimeout} {
		if d < time.Millisecond || d%time.Millisecond != 0 {
			return badConfig("%s is %v: use whole milliseconds, at least one", field, d)
		}
	}
	if c.ElectionTimeout < 5*c.HeartbeatInterval || c.ElectionTimeout > 50*time.Second {
		return badConfig("ElectionTimeout is %v: use 5 heartbeats (%v) to 50s", c.ElectionTimeout, 5*c.HeartbeatInterval)
	}
	if c.BcryptCost < bcrypt.MinCost || c.BcryptCost > bcrypt.MaxCost {
		return badConfig("BcryptCost is %d: use %d to %d, or 0 for the default", c.BcryptCost, bcrypt.MinCost, bcrypt.MaxCost)
	}
	if c.AdvertiseClient != "" && !reachableFrom(c.AdvertiseClient) {
		return badConfig("AdvertiseClient is %q: use host:port, with the host by which others know this machine and a "+
			"fixed port", c.AdvertiseClient)
	}
	if err := c.validateTLS(); err != nil {
		return err
	}
	if len(c.Peers) == 0 {
		if c.ListenPeer != "" || c.PeerTLS != (TLS{}) {
			return badConfig("ListenPeer or PeerTLS is set without Peers: set Peers, too")
		}
		return nil
	}
	return c.validatePeers()
}

func (c Config) validatePeers() error {
	if _, ok := c.Peers[c.Name]; !ok {
		return badConfig("Peers does not name this member, %q: add its peer address", c.Name)
	}
	for name, address := range c.Peers {
		if name == "" || strings.ContainsAny(name, "=, \t\r\n") {
			return badConfig("Peers has the name %q: use names without spaces, commas and equals signs", name)
		}
		if !reachableFrom(address) {
			return badConfig("Peers has the address %q for %s: use host:port with a fixed port", address, name)
		}
	}
	for name, address := range c.Peers {
		for other, same := range c.Peers {
			if name != other && address == same {
				return badConfig("Peers has the address %q for %s and for %s: each member has one of its own", address,
					min(name, other), max(name, other))
			}
		}
	}
	if c.ListenPeer != "" {
		if _, port, err := net.SplitHostPort(c.ListenPeer); err == nil && port == "0" {
			return badConfig("ListenPeer is %q: use a fixed port", c.ListenPeer)
		}
		return checkListen("ListenPeer", c.ListenPeer)
	}
	return checkListen("Peers", c.Peers[c.Name])
}

// reachableFrom reports whether others can be given the address: it has a host and a fixed port.
func reachableFrom(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || !validPort(port) || port == "0" {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsUnspecified()
}

// listenPeer is where this member listens to the others.
func (c Config) listenPeer() string {
	if c.ListenPeer != "" {
		return c.ListenPeer
	}
	return c.Peers[c.Name]
}

// checkListen accepts what etcd can bind: an IP address, localhost or no host.
func checkListen(field, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !validPort(port) {
		return badConfig("%s is %q: use host:port, for example 127.0.0.1:2379", field, address)
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "localhost" && host != "" {
		return badConfig("%s is %q: use an IP address of this machine or localhost as the host", field, address)
	}
	return nil
}

func validPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil
}

func badConfig(format string, args ...any) error {
	return fmt.Errorf("embedetcd: %w: %s", ErrConfig, fmt.Sprintf(format, args...))
}
