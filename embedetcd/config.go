package embedetcd

import (
	"cmp"
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

// Errors of Start, besides the end of its context. Compare them with errors.Is. The message is one line that
// names the remedy, and the cause is wrapped.
var (
	// ErrConfig is returned when a field of Config is wrong.
	ErrConfig = errors.New("bad etcd configuration")
	// ErrDataDir is returned when the data directory cannot be used: for the reason of one of the next two
	// errors, or because this user may not create, read and write it.
	ErrDataDir = errors.New("etcd data directory cannot be used")
	// ErrDataDirInUse is returned when another server uses the directory. It matches ErrDataDir.
	ErrDataDirInUse = fmt.Errorf("%w: another running server uses it", ErrDataDir)
	// ErrDamaged is returned when etcd's database in the directory is damaged. It matches ErrDataDir.
	ErrDamaged = fmt.Errorf("%w: its database is damaged", ErrDataDir)
	// ErrAddressInUse is returned when another socket is bound to a configured address.
	ErrAddressInUse = errors.New("address already in use")
	// ErrMemberLost is returned when the other members know this one but its data directory is empty. The
	// member might vote a second time on entries that it has already confirmed. See Start.
	ErrMemberLost = errors.New("the data of this member of etcd is lost")
	// ErrPeerAddress is returned when the data belongs to a member with another peer address than that in
	// Peers. It matches ErrConfig.
	ErrPeerAddress = fmt.Errorf("%w: the member has another peer address", ErrConfig)
	// ErrNotMember is returned when the other members do not know this one.
	ErrNotMember = errors.New("this is no member of the etcd cluster")
	// ErrRemoved is returned when this member was removed from the cluster, so its data is useless. It matches
	// ErrNotMember.
	ErrRemoved = fmt.Errorf("%w any more", ErrNotMember)
)

// A DisagreeError reports another member with a different configuration of Peers or Token. It matches
// ErrConfig.
type DisagreeError struct {
	Member       string // name of the other member in this member's Peers
	Theirs, Ours string // members and token
}

// Error returns a message with the member and both configurations.
func (e *DisagreeError) Error() string {
	return fmt.Sprintf("embedetcd: %v: Peers and Token of %s are %s, and here %s: give all members the same", ErrConfig,
		e.Member, e.Theirs, e.Ours)
}

// Unwrap returns ErrConfig.
func (e *DisagreeError) Unwrap() error { return ErrConfig }

// Config configures one etcd server. The zero value works: it uses a free port of 127.0.0.1 and a temporary
// directory.
type Config struct {
	// DataDir holds etcd's data across restarts; it is created if missing. If it is empty, the server uses a
	// temporary directory, which Close removes.
	DataDir string

	// ListenClient is the host:port at which the server listens for clients. The host is an IP address,
	// "localhost", or empty for every interface. Port 0 picks a free port. Default 127.0.0.1:0.
	ListenClient string

	// Name is the member's name in etcd's own cluster. Default "goverse".
	Name string

	// AdvertiseClient is the host:port at which clients on other machines reach this member. Clients that ask
	// any member for the addresses of all get it. The default is ListenClient, or 127.0.0.1 if ListenClient is
	// every interface.
	AdvertiseClient string

	// ClientTLS secures the connections of clients. With CAFile, clients must present a certificate of one of
	// its authorities. The zero value means plain text.
	ClientTLS TLS

	// Peers makes this server one member of an etcd cluster. It maps the name of every member, including this
	// one, to the host:port of its peer traffic. All members must have the same Peers. Start describes how the
	// cluster begins, and what to do with a member that has lost its data. If Peers is empty, the server is the
	// only member and opens no peer port.
	Peers map[string]string

	// ListenPeer is the host:port at which this member listens for the others. The default is its address in
	// Peers.
	ListenPeer string

	// PeerTLS secures the connections between the members. It needs all three files; the certificate serves
	// both sides and must be valid for the hosts in Peers. The zero value means plain text.
	PeerTLS TLS

	// Token distinguishes clusters, so that members of different clusters never mix. All members must have the
	// same Token. Default "goverse". Clusters built one after the other with the same Peers need no different
	// tokens, because part of the cluster id is random.
	Token string

	// HeartbeatInterval is the interval between heartbeats of etcd's leader and the tick of etcd's internal
	// clock, in whole milliseconds. Default 100 ms.
	HeartbeatInterval time.Duration

	// ElectionTimeout is the time that etcd's members wait for a heartbeat before they elect another leader, in
	// whole milliseconds, from 5 heartbeats to 50 s. Default 1 s. It also sets the smallest lease TTL that etcd
	// grants: 1.5 times ElectionTimeout, rounded up to a whole second, so 2 s by default.
	ElectionTimeout time.Duration

	// UnsafeNoFsync leaves writes in the operating system's cache. That is much faster, but a crash of the
	// machine (not of the process) can lose acknowledged data.
	UnsafeNoFsync bool

	// BcryptCost is the cost of checking a password of etcd's access control, from 4 to 31; each step doubles
	// the work. After each change of a right, etcd checks every client's password again. Default 10, like
	// etcd's.
	BcryptCost int

	// Logger receives etcd's log, with etcd's info level as debug. If it is nil, nothing is logged.
	Logger hclog.Logger

	// allNew reports that all members are known to be new, so the members need not ask each other.
	allNew bool
}

// TestTiming returns cfg with settings that suit tests: heartbeats of 10 ms, an election timeout of 100 ms,
// which permits a lease TTL of 1 s, no fsync, and passwords that are cheap to check. Such a server serves
// within milliseconds. On a machine too busy to schedule it for 100 ms, a cluster of several members may change
// its leader.
func TestTiming(cfg Config) Config {
	cfg.HeartbeatInterval = 10 * time.Millisecond
	cfg.ElectionTimeout = 100 * time.Millisecond
	cfg.UnsafeNoFsync = true
	cfg.BcryptCost = bcrypt.MinCost
	return cfg
}

// withDefaults returns c with its empty fields set to their defaults.
func (c Config) withDefaults() Config {
	c.ListenClient = cmp.Or(c.ListenClient, "127.0.0.1:0")
	c.Name = cmp.Or(c.Name, "goverse")
	c.Token = cmp.Or(c.Token, "goverse")
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, 100*time.Millisecond)
	if c.ElectionTimeout == 0 {
		// Keep etcd's own ratio even if only the heartbeat was changed.
		c.ElectionTimeout = 10 * c.HeartbeatInterval
	}
	c.BcryptCost = cmp.Or(c.BcryptCost, bcrypt.DefaultCost)
	c.Logger = logqueue.New(c.Logger)
	return c
}

// Validate checks the fields and how they relate, with defaults filled in. It accesses neither files nor the
// network. Its errors match ErrConfig.
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
	if c.AdvertiseClient != "" && !reachableByOthers(c.AdvertiseClient) {
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
		if !reachableByOthers(address) {
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

// reachableByOthers reports whether other machines can use the address: it has a specific host and a fixed port.
func reachableByOthers(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || !validPort(port) || port == "0" {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsUnspecified()
}

// listenPeer returns the address at which this member listens for the others.
func (c Config) listenPeer() string {
	if c.ListenPeer != "" {
		return c.ListenPeer
	}
	return c.Peers[c.Name]
}

// checkListen accepts the addresses that etcd can bind: an IP address, localhost or no host.
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
