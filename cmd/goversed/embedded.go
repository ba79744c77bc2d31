package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/goverse/goverse/cmd/goversed/internal/daemon"
	"github.com/goverse/goverse/embedetcd"
)

// embeddedFlags holds the flags of the embedded etcd.
type embeddedFlags struct {
	dataDir, listen, advertise string
	name, cluster, peerListen  string
	serve, peer                embedetcd.TLS
}

func (f *embeddedFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.dataDir, "data-dir", "goverse-data", "`directory` for the data of the embedded etcd")
	fs.StringVar(&f.listen, "etcd-listen", defaultEtcd, "`host:port` at which the embedded etcd serves nodes and "+
		"other clients")
	fs.StringVar(&f.advertise, "etcd-advertise", "", "`host:port` at which other machines reach the embedded etcd "+
		"(default: --etcd-listen)")
	fs.StringVar(&f.serve.CertFile, "etcd-serve-cert", "", "PEM `file` with the certificate of the embedded etcd for "+
		"clients, which must then use https://")
	fs.StringVar(&f.serve.KeyFile, "etcd-serve-key", "", "PEM `file` with the key of that certificate")
	fs.StringVar(&f.serve.CAFile, "etcd-serve-ca", "", "PEM `file` with the certificate authorities of clients, which "+
		"then need a certificate (default: they need none)")
	fs.StringVar(&f.cluster, "etcd-cluster", "", "members of the embedded etcd cluster as `name=peer URL`, separated "+
		"by commas; the same for all of them")
	fs.StringVar(&f.name, "etcd-name", "", "`name` of this member in --etcd-cluster")
	fs.StringVar(&f.peerListen, "etcd-peer-listen", "", "`host:port` at which this member listens to the others "+
		"(default: that of its peer URL)")
	fs.StringVar(&f.peer.CertFile, "etcd-peer-cert", "", "PEM `file` with this member's certificate for connections with "+
		"other members, in both directions; peer URLs must then begin with https://")
	fs.StringVar(&f.peer.KeyFile, "etcd-peer-key", "", "PEM `file` with the key of that certificate")
	fs.StringVar(&f.peer.CAFile, "etcd-peer-ca", "", "PEM `file` with the certificate authorities of the members")
}

func embeddedNames() (names []string) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&embeddedFlags{}).register(fs)
	fs.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// config checks the flags, without reading files.
func (f *embeddedFlags) config() (embedetcd.Config, error) {
	cfg := embedetcd.Config{DataDir: f.dataDir, ListenClient: f.listen, AdvertiseClient: f.advertise, Name: f.name,
		ListenPeer: f.peerListen, ClientTLS: f.serve, PeerTLS: f.peer}
	switch {
	case f.dataDir == "":
		return cfg, errors.New("--data-dir is empty: name the directory in which the embedded etcd keeps its data")
	case f.listen == "":
		return cfg, errors.New("--etcd-listen is empty: give the host:port of the embedded etcd, for example 127.0.0.1:2379")
	case f.advertise != "" && !isCompleteAddress(f.advertise):
		return cfg, fmt.Errorf("--etcd-advertise %s: write the host:port under which others reach this machine, like "+
			"10.0.0.1:2379", f.advertise)
	case (f.serve.CertFile == "") != (f.serve.KeyFile == ""):
		return cfg, errors.New("--etcd-serve-cert and --etcd-serve-key belong together: give both")
	case f.serve.CAFile != "" && f.serve.CertFile == "":
		return cfg, errors.New("--etcd-serve-ca is given without --etcd-serve-cert and --etcd-serve-key: give all three")
	}
	given := f.peer.CertFile != "" || f.peer.KeyFile != "" || f.peer.CAFile != ""
	if given && (f.peer.CertFile == "" || f.peer.KeyFile == "" || f.peer.CAFile == "") {
		return cfg, errors.New("--etcd-peer-cert, --etcd-peer-key and --etcd-peer-ca belong together: give all three")
	}
	if f.cluster == "" {
		if f.name != "" || f.peerListen != "" || given {
			return cfg, errors.New("--etcd-name, --etcd-peer-listen and --etcd-peer-cert configure one of several " +
				"members: give --etcd-cluster, too")
		}
		return cfg, nil
	}
	var err error
	if cfg.Peers, err = f.parsePeers(); err != nil {
		return cfg, err
	}
	return cfg, f.checkAddresses(cfg)
}

func (f *embeddedFlags) parsePeers() (map[string]string, error) {
	peers, scheme := map[string]string{}, "http"
	if f.peer.CertFile != "" {
		scheme = "https"
	}
	for _, part := range strings.Split(f.cluster, ",") {
		name, url, ok := strings.Cut(strings.TrimSpace(part), "=")
		address, hasScheme := strings.CutPrefix(url, scheme+"://")
		address = strings.TrimSuffix(address, "/")
		switch _, twice := peers[name]; {
		case scheme == "http" && strings.HasPrefix(url, "https://"):
			return nil, fmt.Errorf("--etcd-cluster has %s, which needs certificates: give --etcd-peer-cert, --etcd-peer-key "+
				"and --etcd-peer-ca, or write http://", url)
		case scheme == "https" && strings.HasPrefix(url, "http://"):
			return nil, fmt.Errorf("--etcd-cluster has %s, which would not be encrypted although certificates are given: "+
				"write https://", url)
		case !ok || name == "" || strings.ContainsAny(name, " \t") || !hasScheme || !isCompleteAddress(address):
			return nil, fmt.Errorf("--etcd-cluster: %q: write name=URL for each member, like "+
				"a=%s://10.0.0.1:2380,b=%[2]s://10.0.0.2:2380,c=%[2]s://10.0.0.3:2380", part, scheme)
		case twice:
			return nil, fmt.Errorf("--etcd-cluster has the name %s twice: each member has a name of its own", name)
		}
		for other, same := range peers {
			if same == address {
				return nil, fmt.Errorf("--etcd-cluster has %s for %s and for %s: each member has a peer URL of its own", url, other,
					name)
			}
		}
		peers[name] = address
	}
	names := strings.Join(slices.Sorted(maps.Keys(peers)), ", ")
	switch _, ok := peers[f.name]; {
	case f.name == "":
		return nil, fmt.Errorf("--etcd-name is missing: say which of --etcd-cluster this process is: %s", names)
	case !ok:
		return nil, fmt.Errorf("--etcd-name %s is not in --etcd-cluster: give one of %s", f.name, names)
	}
	return peers, nil
}

// checkAddresses checks that the other members and nodes can reach this member.
func (f *embeddedFlags) checkAddresses(cfg embedetcd.Config) error {
	listen, own := cmp.Or(f.peerListen, cfg.Peers[f.name]), cfg.Peers[f.name]
	if host, port, err := net.SplitHostPort(listen); err != nil || port == "0" || !isBindableHost(host) || !isPort(port) {
		if f.peerListen == "" {
			return fmt.Errorf("--etcd-peer-listen is missing: the peer URL of %s has a name, and to listen takes an IP "+
				"address of this machine, like 0.0.0.0:2380", f.name)
		}
		return fmt.Errorf("--etcd-peer-listen %s: write host:port, like 0.0.0.0:2380; the host is an IP address of this "+
			"machine or localhost", f.peerListen)
	}
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil || len(cfg.Peers) == 1 {
		return nil // config reports an invalid listen address
	}
	ip, _ := netip.ParseAddr(host)
	peer, _, _ := net.SplitHostPort(own)
	switch {
	case f.advertise == "" && (host == "" || ip.Unmap().IsUnspecified()):
		return fmt.Errorf("--etcd-advertise is missing: --etcd-listen %s is every interface, and the other nodes need to "+
			"know one address, like %s:2379", f.listen, peer)
	case daemon.IsLoopbackHost(host) && !daemon.IsLoopbackHost(peer):
		return fmt.Errorf("--etcd-listen %s cannot be reached by the nodes of the other members: give this machine's "+
			"address, like %s", f.listen, net.JoinHostPort(peer, "2379"))
	}
	return nil
}

// isCompleteAddress reports whether an address is complete, so that other machines can use it.
func isCompleteAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	ip, perr := netip.ParseAddr(host)
	return err == nil && host != "" && port != "0" && isPort(port) && (perr != nil || !ip.Unmap().IsUnspecified())
}

func isPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil
}

func isBindableHost(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || host == "localhost"
}
