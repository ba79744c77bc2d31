//go:build linux

package integration

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/test/pace"
)

var (
	passwordSessions = flag.Int("passwords.sessions", 60, "how many sessions TestSessionsOfAUser opens")
	passwordClients  = flag.Int("passwords.clients", 6, "how many clients they share")
	passwordFor      = flag.Duration("passwords.for", 6*time.Second, "how long each of its parts lasts")
)

// defaultBcryptCost is etcd's default: one password check takes most of a tenth of a second.
const defaultBcryptCost = 10

// hopelessSlowdown is the slowdown of the machine from which a lost session proves nothing. Six password checks at a
// time need 0.2 to 0.3 s of two idle cores, and twice that if the password is set anew meanwhile. A session has two
// thirds of its TTL for them and for a renewal.
const hopelessSlowdown = 15

// users holds sessions of one user of etcd.
type users struct {
	meter    *pace.Meter
	sessions []*etcdsession.Session
}

func (u *users) open(t *testing.T, endpoint string) {
	t.Helper()
	clients := make([]*clientv3.Client, *passwordClients)
	for i := range clients {
		client, err := cluster.NewEtcdClient(cluster.Config{EtcdAddress: endpoint, Username: nodeUser, Password: nodeUser,
			DialTimeout: time.Minute})
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		clients[i] = client
	}
	for i := range *passwordSessions {
		s, err := etcdsession.Open(requestContext(t), etcdsession.Config{TTL: passwordTTL,
			Process: etcd.Process{Client: clients[i%len(clients)]}})
		require.NoError(t, err)
		u.sessions = append(u.sessions, s)
	}
}

// close ends the sessions concurrently.
func (u *users) close() {
	ctx, cancel := context.WithTimeout(context.Background(), passwordTTL)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range u.sessions {
		wg.Go(func() { _ = s.Close(ctx) })
	}
	wg.Wait()
}

// watch observes the sessions for a while, and fails if one is lost, unless the machine was too slow since the last
// watch. It logs etcd's processor time in that period.
func (u *users) watch(t *testing.T, part string, etcd *procs.Etcd) {
	t.Helper()
	began, used, logins := time.Now(), processorTime(t, etcd.Pid()), logIns(t, etcd)
	lost, silent := 0, 0
	for time.Since(began) < *passwordFor {
		lost = 0
		for _, s := range u.sessions {
			if s.Err() != nil {
				lost++
			} else if !s.Valid() {
				silent++
			}
		}
		<-time.After(100 * time.Millisecond)
	}
	took := time.Since(began)
	cores := (processorTime(t, etcd.Pid()) - used).Seconds() / took.Seconds()
	slowdown := u.meter.Slowdown()
	u.meter.StartLap()
	t.Logf("%s: %d sessions, %d clients, %v: %d lost, %d times silent, %d log-ins, etcd used %.2f cores, slowdown %.1f",
		part, len(u.sessions), *passwordClients,
		took.Round(time.Second), lost, silent, logIns(t, etcd)-logins, cores, slowdown)
	for _, s := range u.sessions {
		if err := s.Err(); err != nil && slowdown >= hopelessSlowdown {
			t.Skipf("%s: %v, on a machine that is slower than when idle by a factor of %.1f", part, err, slowdown)
		}
		require.NoError(t, s.Err(), part)
	}
}

// logIns returns the number of passwords that a server was asked to check since it started.
func logIns(t *testing.T, etcd *procs.Etcd) int {
	t.Helper()
	return metricOf(t, etcd.Endpoint, "grpc_server_started_total", `grpc_method="Authenticate"`)
}

// metricOf returns the value of one of etcd's counters with a label.
func metricOf(t *testing.T, endpoint, name, label string) int {
	t.Helper()
	resp, err := http.Get("http://" + endpoint + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close() // nothing was written
	metrics, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	for line := range strings.Lines(string(metrics)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, label) {
			n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			require.NoError(t, err)
			return int(n)
		}
	}
	t.Fatalf("etcd has no metric %s with %s", name, label)
	return 0
}

// processorTime returns the processor time that a process has used.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if os.IsNotExist(err) {
		t.Skip("this reads /proc/PID/stat, which only Linux has")
	}
	require.NoError(t, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	var ticks int64
	for _, field := range fields[12:14] { // utime and stime, in hundredths of a second
		n, err := strconv.ParseInt(field, 10, 64)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// Sessions of a user survive slow password checks, whatever happens to the tokens.
func TestSessionsOfAUser(t *testing.T) {
	t.Parallel()
	for _, flavour := range procs.Flavours() {
		t.Run(string(flavour), func(t *testing.T) {
			t.Parallel()
			etcd := kit.StartEtcdWith(t, flavour, procs.Passwords{BcryptCost: defaultBcryptCost, TokenTTL: 5})
			enableAccess(t, etcd)
			u := &users{meter: pace.StartMeter(t)}
			u.open(t, etcd.Endpoint)
			defer u.close()
			u.watch(t, "nothing happens", etcd)

			admin := etcd.Client(t, administrator, administrator) // the token of another client may have expired
			_, err := admin.UserChangePassword(requestContext(t), nodeUser, nodeUser)
			require.NoError(t, err)
			u.watch(t, "etcd forgets the user's tokens", etcd)

			etcd.Kill(t)
			etcd.Restart(t)
			u.watch(t, "etcd is killed and restarted", etcd)
		})
	}
}
