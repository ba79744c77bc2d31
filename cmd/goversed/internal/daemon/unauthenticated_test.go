package daemon

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/cluster/httpapi"
	"github.com/goverse/goverse/internal/test/etcdtest"
)

// grpcMethods lists all gRPC methods of a goversed node with the changes they can make in the cluster. With
// --node-ca only callers with a certificate of that authority reach them; without, every caller that reaches
// the port.
var grpcMethods = map[string]string{
	"goverse.node.v1.Node/Identify":                                 "nothing",
	"goverse.node.v1.Node/Watch":                                    "nothing: the node counts its watchers",
	"goverse.objects.v1.Objects/Describe":                           "nothing",
	"goverse.objects.v1.Objects/Link":                               "what the program's objects do; goversed hosts none",
	"goverse.objects.v1.Objects/WatchRoutes":                        "nothing",
	"grpc.health.v1.Health/Check":                                   "nothing",
	"grpc.health.v1.Health/List":                                    "nothing",
	"grpc.health.v1.Health/Watch":                                   "nothing",
	"grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      "nothing",
	"grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": "nothing",
}

// roundTripField matches the part of a node's record that changes when etcd becomes slower or faster for it.
var roundTripField = regexp.MustCompile(`,"round_trip_ms":\d+`)

// readEtcd returns the content of etcd without the nodes' distances. Lease renewals do not change it.
func readEtcd(t *testing.T, client *clientv3.Client) map[string]string {
	t.Helper()
	resp, err := client.Get(etcdtest.Context(t), "\x00", clientv3.WithFromKey())
	require.NoError(t, err)
	out := map[string]string{}
	for _, kv := range resp.Kvs {
		written := fmt.Sprintf(", written %d", kv.ModRevision)
		if strings.HasPrefix(string(kv.Key), "/goverse/nodes/") {
			written = ""
		}
		out[string(kv.Key)] = fmt.Sprintf("%s created %d, lease %x%s", roundTripField.ReplaceAllString(string(kv.Value), ""),
			kv.CreateRevision, kv.Lease, written)
	}
	return out
}

// awaitQuietEtcd returns the content of etcd once no writes occur for a while.
func awaitQuietEtcd(t *testing.T, client *clientv3.Client) map[string]string {
	t.Helper()
	last := readEtcd(t, client)
	since := time.Now()
	require.Eventually(t, func() bool {
		if now := readEtcd(t, client); !maps.Equal(now, last) {
			last, since = now, time.Now()
		}
		return time.Since(since) > time.Second
	}, patience, 50*time.Millisecond)
	return last
}

// Without valid credentials no caller can change anything, with any method on any HTTP route, or with any gRPC
// method.
func TestUnauthenticatedChangesNothing(t *testing.T) {
	t.Parallel()
	e := etcdtest.Start(t)
	cfg := joinConfig(t, e.Endpoint())
	// A busy machine must not cause changes, either.
	cfg.Cluster.LeaderElectionTTL, cfg.Cluster.RequestTimeout, cfg.Cluster.CrashDetection.Off = 60, 10*time.Second, true
	cfg.Cluster.Sharding = cluster.Sharding{Shards: 16, Window: 20 * time.Millisecond}
	other := cfg
	cfg.Admin.Token = canaryToken
	d, log := startLogged(t, cfg)
	off := startDaemon(t, other)
	require.Eventually(t, func() bool {
		var shards httpapi.Shards
		return len(d.waitReady(t).Queue) == 2 && getJSON(t, d.HTTPAddress(), "/cluster/shards", &shards) == http.StatusOK &&
			len(shards.Owners) == 2 && shards.Balance.Least == 8 && shards.OpenMoves == 0
	}, patience, tick)
	before := awaitQuietEtcd(t, e.Client())

	node := d.NodeAddress()
	body := `{"to":"` + node + `","node":"` + node + `","token":1,"outcome":"done"}`
	tried, refused := 0, map[int]int{}
	for _, address := range []string{d.HTTPAddress(), off.HTTPAddress()} {
		all := apiPaths(t, address)
		for _, path := range slices.Concat(all[http.MethodGet], all[http.MethodPost]) {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "REPORT"} {
				for _, authorization := range []string{"", "Bearer ", "Bearer guess-guess-guess", "Basic " + canaryToken} {
					for _, body := range []string{"", "{}", body} {
						code := requestStatus(t, method, "http://"+address+strings.ReplaceAll(path, "{name}", "it"), authorization, body)
						tried++
						if strings.HasPrefix(path, "/cluster/admin/") {
							require.GreaterOrEqual(t, code, 400, "%s %s", method, path)
							refused[code]++
						}
					}
				}
			}
		}
	}
	require.Greater(t, tried, 1000)
	require.Positive(t, refused[http.StatusUnauthorized])
	require.Positive(t, refused[http.StatusForbidden])
	require.Positive(t, refused[http.StatusTooManyRequests], "it gave up looking")
	require.Equal(t, before, awaitQuietEtcd(t, e.Client()), "over HTTP")

	callAllMethods(t, node)
	require.Equal(t, before, awaitQuietEtcd(t, e.Client()), "over gRPC")

	// With the token the same call changes the content, which shows that the comparison works. After a while
	// its address is checked again.
	require.Eventually(t, func() bool {
		code, _ := callAdmin(t, httpClient, "http://"+d.HTTPAddress(), "drain", canaryToken, `{"node":"`+node+`"}`)
		return code == http.StatusOK
	}, patience, 200*time.Millisecond)
	require.NotEqual(t, before, readEtcd(t, e.Client()))
	require.NotContains(t, log.String(), canaryToken)
}

func requestStatus(t *testing.T, method, url, authorization, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	resp, err := httpClient.Do(r)
	require.NoError(t, err, "%s %s", method, url)
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// rawCodec sends bytes unchanged.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

var _ encoding.Codec = rawCodec{}

// callAllMethods calls every method that reflection shows, with several messages. All of them must be known.
func callAllMethods(t *testing.T, address string) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	found := listMethods(t, conn)
	require.ElementsMatch(t, slices.Collect(maps.Keys(grpcMethods)), found,
		"a method that is not known: say in grpcMethods what it changes, and who may call it")
	for _, method := range found {
		// An empty message; a string in the first field; strings in the first two and a number in the third.
		for _, message := range []string{"", "\x0a\x02it", "\x0a\x02it\x12\x02it\x18\x01"} {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/"+method,
				grpc.ForceCodec(rawCodec{}))
			require.NoError(t, err)
			said := []byte(message)
			for range 2 {
				_ = stream.SendMsg(&said) // a unary method accepts one message and returns an error
			}
			_ = stream.CloseSend()
			for err == nil {
				var answer []byte
				err = stream.RecvMsg(&answer)
			}
			cancel()
		}
	}
}

// listMethods returns all methods of a server according to reflection.
func listMethods(t *testing.T, conn *grpc.ClientConn) (all []string) {
	t.Helper()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(etcdtest.Context(t))
	require.NoError(t, err)
	ask := func(r *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		require.NoError(t, stream.Send(r))
		resp, err := stream.Recv()
		require.NoError(t, err)
		require.Nil(t, resp.GetErrorResponse())
		return resp
	}
	list := ask(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	for _, service := range list.GetListServicesResponse().GetService() {
		files := ask(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
				FileContainingSymbol: service.GetName()}})
		for _, raw := range files.GetFileDescriptorResponse().GetFileDescriptorProto() {
			var file descriptorpb.FileDescriptorProto
			require.NoError(t, proto.Unmarshal(raw, &file))
			for _, s := range file.GetService() {
				if file.GetPackage()+"."+s.GetName() != service.GetName() {
					continue
				}
				for _, m := range s.GetMethod() {
					all = append(all, service.GetName()+"/"+m.GetName())
				}
			}
		}
	}
	require.NoError(t, stream.CloseSend())
	return all
}
