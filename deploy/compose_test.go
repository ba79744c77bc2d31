package deploy

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

const composeFile = "docker/compose.yaml"

// compose loads a Compose file like docker compose: it checks the schema and fills in all values.
func compose(ctx context.Context, text string) (*types.Project, error) {
	dir, err := filepath.Abs("docker")
	if err != nil {
		return nil, err
	}
	return loader.LoadWithContext(ctx, types.ConfigDetails{WorkingDir: dir, Environment: types.Mapping{},
		ConfigFiles: []types.ConfigFile{{Filename: composeFile, Content: []byte(text)}}})
}

func TestCompose(t *testing.T) {
	text := read(t, composeFile)
	project, err := compose(t.Context(), text)
	require.NoError(t, err)
	require.Len(t, project.Services, 6)
	var nodes []string
	for name, s := range project.Services {
		require.NotNil(t, s.HealthCheck, name)
		require.GreaterOrEqual(t, time.Duration(*s.StopGracePeriod), 20*time.Second, name)
		if strings.HasPrefix(name, "etcd") {
			require.Len(t, s.Volumes, 1, name)
			require.Equal(t, name, *s.Environment["ETCD_NAME"])
			require.Contains(t, *s.Environment["ETCD_INITIAL_CLUSTER"],
				name+"="+*s.Environment["ETCD_INITIAL_ADVERTISE_PEER_URLS"])
			continue
		}
		nodes = append(nodes, name)
		require.Equal(t, name+":47001", *s.Environment["GOVERSE_ADVERTISE"])
		require.True(t, s.ReadOnly, name)
		require.FileExists(t, filepath.Join(s.Build.Context, s.Build.Dockerfile))
		for _, member := range strings.Split(*s.Environment["GOVERSE_ETCD"], ",") {
			host, _, _ := strings.Cut(member, ":")
			require.Equal(t, types.ServiceConditionHealthy, s.DependsOn[host].Condition, "%s waits for %s", name, host)
		}
		for variable := range s.Environment {
			require.True(t, isVariable(t, variable), variable)
		}
	}
	require.Len(t, nodes, 3)
}

// The file remains a valid Compose file when its commented-out settings, for TLS and a user, are enabled.
func TestComposeWithTLS(t *testing.T) {
	setting := regexp.MustCompile(`(?m)^( *)# ([A-Z_]+: |secrets:|  [a-z-]+: \{file)`)
	variant := setting.ReplaceAllString(read(t, composeFile), "$1$2")
	project, err := compose(t.Context(), variant)
	require.NoError(t, err)
	require.Len(t, project.Secrets, 4)
	require.Equal(t, "/run/secrets/ca", *project.Services["node3"].Environment["GOVERSE_NODE_CA"])
	require.Equal(t, "true", *project.Services["etcd2"].Environment["ETCD_PEER_CLIENT_CERT_AUTH"])
	require.Len(t, project.Services["node1"].Secrets, 4)
	for variable := range project.Services["node1"].Environment {
		require.True(t, isVariable(t, variable), variable)
	}
}

func TestABadComposeFileIsRefused(t *testing.T) {
	text := read(t, composeFile)
	for _, bad := range []string{
		strings.Replace(text, "read_only: true", "readonly: true", 1),
		strings.Replace(text, "networks: [etcd, nodes]", "networks: [etcd, node]", 1),
		strings.Replace(text, "etcd1: {condition: service_healthy}", "etcd4: {condition: service_healthy}", 1),
	} {
		require.NotEqual(t, text, bad)
		_, err := compose(t.Context(), bad)
		require.Error(t, err)
	}
}
