package deploy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestLeaderService(t *testing.T) {
	all, err := createAll(t.Context(), manifests(t, "kubernetes/leader"))
	require.NoError(t, err)
	template := of[*appsv1.Deployment](all)[0].Spec.Template
	require.NoError(t, restricted(&template.ObjectMeta, &template.Spec))
	require.Equal(t, of[*corev1.Service](all)[0].Spec.Selector["app"], template.Labels["app"])
	require.Equal(t, of[*corev1.ConfigMap](all)[0].Name, template.Spec.Volumes[0].ConfigMap.Name)
	require.Contains(t, of[*corev1.ConfigMap](all)[0].Data["haproxy.cfg"], "goverse.goverse.svc.cluster.local:48001")
}

// nodes starts servers at one port of three addresses of this machine, like pods. The leader answers with its
// number and the others with 503, as package leaderonly and /leaderz do.
func nodes(t *testing.T, leader *atomic.Int32) (port string, addresses []net.IP) {
	t.Helper()
	require.Eventually(t, func() bool {
		port, addresses = "0", nil
		var listeners []net.Listener
		for i := range 3 {
			ip := net.IPv4(127, 0, 0, byte(2+i))
			l, err := net.Listen("tcp", net.JoinHostPort(ip.String(), port))
			if err != nil { // the port is taken there
				for _, l := range listeners {
					_ = l.Close() // nothing uses it
				}
				return false
			}
			_, port, _ = net.SplitHostPort(l.Addr().String())
			listeners, addresses = append(listeners, l), append(addresses, ip)
		}
		for i, l := range listeners {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if leader.Load() != int32(i) {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				_, _ = fmt.Fprint(w, i) // the client may have gone
			}))
			_ = s.Listener.Close() // it has a listener of its own
			s.Listener = l
			s.Start()
			t.Cleanup(s.Close)
		}
		return true
	}, 20*time.Second, time.Millisecond)
	return port, addresses
}

// nameServer answers like the cluster's DNS for the headless Service.
func nameServer(t *testing.T, addresses []net.IP) (address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	started := make(chan struct{})
	s := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(started) },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			reply := new(dns.Msg).SetReply(q)
			for _, ip := range addresses {
				if q.Question[0].Qtype == dns.TypeA && q.Question[0].Name == "goverse.goverse.svc.cluster.local." {
					reply.Answer = append(reply.Answer, &dns.A{A: ip, Hdr: dns.RR_Header{Name: q.Question[0].Name,
						Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 5}})
				}
			}
			_ = w.WriteMsg(reply) // HAProxy asks again
		})}
	served := make(chan error, 1)
	go func() { served <- s.ActivateAndServe() }()
	<-started
	t.Cleanup(func() {
		require.NoError(t, s.Shutdown())
		require.NoError(t, <-served)
	})
	return conn.LocalAddr().String()
}

// HAProxy, configured by the ConfigMap, sends requests to the leader, follows it when it changes, and refuses
// requests while there is none.
func TestHAProxyFollowsTheLeader(t *testing.T) {
	program, err := exec.LookPath("haproxy")
	if err != nil {
		if strings.Contains(os.Getenv("GOVERSE_REQUIRE"), "haproxy") {
			t.Fatal(err)
		}
		t.Skip("there is no haproxy here")
	}
	var leader atomic.Int32
	leader.Store(1)
	port, addresses := nodes(t, &leader)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	frontFile, err := front.(*net.TCPListener).File() // inherited, so that no other program can take the port
	require.NoError(t, err)
	config := read(t, "kubernetes", "leader", "haproxy.cfg")
	health := filepath.Join(t.TempDir(), "health")
	for _, change := range [][2]string{{"bind :8080", "bind fd@3"}, {"bind :8081", "bind unix@" + health},
		{"parse-resolv-conf", "nameserver test " + nameServer(t, addresses)}, {"local:48001", "local:" + port}} {
		require.Equal(t, 1, strings.Count(config, change[0]), change[0])
		config = strings.Replace(config, change[0], change[1], 1)
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	proxy := exec.Command(program, "-db", "-f", file)
	proxy.ExtraFiles = []*os.File{frontFile}
	var log strings.Builder
	proxy.Stdout, proxy.Stderr = &log, &log
	require.NoError(t, proxy.Start())
	require.NoError(t, frontFile.Close())
	address := front.Addr().String()
	require.NoError(t, front.Close()) // the proxy has inherited it
	t.Cleanup(func() {
		require.NoError(t, proxy.Process.Kill())
		_ = proxy.Wait() // the error is that it was killed
		if t.Failed() {
			t.Log(log.String())
		}
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	ask := func() (code int, body string) {
		r, err := client.Post("http://"+address+"/", "text/plain", strings.NewReader("write"))
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = r.Body.Close() }() // the body was read
		text, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(text)
	}
	answeredBy := func(node string) {
		t.Helper()
		inARow := 0
		require.Eventually(t, func() bool {
			code, body := ask()
			if inARow++; code != http.StatusOK || body != node {
				inARow = 0
			}
			return inARow == 20
		}, 20*time.Second, 5*time.Millisecond, "node %s", node)
	}
	answeredBy("1")
	leader.Store(2)
	answeredBy("2")
	leader.Store(-1)
	require.Eventually(t, func() bool {
		code, _ := ask()
		return code == http.StatusServiceUnavailable
	}, 20*time.Second, 20*time.Millisecond)
	leader.Store(0)
	answeredBy("0")
}
