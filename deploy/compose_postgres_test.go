package deploy

import (
	"net/netip"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

const postgresComposeFile = "docker/compose.postgres.yaml"

// The integration tests run the commands of this file as processes, behind a real nginx.
func TestComposeWithPostgres(t *testing.T) {
	project, err := compose(t.Context(), read(t, postgresComposeFile))
	require.NoError(t, err)
	require.Len(t, project.Services, 5)
	database, nginx := project.Services["postgres"], project.Services["nginx"]
	subnet := netip.MustParsePrefix(project.Networks["web"].Ipam.Config[0].Subnet)
	var addresses, published []string
	for name, s := range project.Services {
		require.NotNil(t, s.HealthCheck, name)
		require.GreaterOrEqual(t, time.Duration(*s.StopGracePeriod), 30*time.Second, name)
		require.NotContains(t, s.Image, "latest", name)
		for _, p := range s.Ports {
			require.Equal(t, "127.0.0.1", p.HostIP, name)
			published = append(published, p.Published)
		}
		if !strings.HasPrefix(name, "controller") {
			continue
		}
		require.True(t, s.ReadOnly, name)
		require.Equal(t, []string{"CMD", "/goversed", "probe", "--self", "/readyz"}, []string(s.HealthCheck.Test), name)
		require.Equal(t, types.ServiceConditionHealthy, s.DependsOn["postgres"].Condition, name)
		require.Equal(t, types.ServiceConditionHealthy, nginx.DependsOn[name].Condition, name)
		require.Equal(t, []string{"-http", ":48001", "-advertise", name + ":48001"}, []string(s.Command))
		require.DirExists(t, filepath.Join(s.Build.Context, *s.Build.Args["MAIN"]))
		at, err := url.Parse(*s.Environment["DATABASE_URL"])
		require.NoError(t, err)
		password, _ := at.User.Password()
		require.Equal(t, "postgres", at.Hostname())
		require.Equal(t, *database.Environment["POSTGRES_USER"], at.User.Username())
		require.Equal(t, *database.Environment["POSTGRES_PASSWORD"], password)
		require.Equal(t, "/"+*database.Environment["POSTGRES_USER"], at.Path, "the default of POSTGRES_DB")
		address := s.Networks["web"].Ipv4Address
		require.True(t, subnet.Contains(netip.MustParseAddr(address)), address)
		addresses = append(addresses, address+":48001")
		require.Contains(t, s.Networks, "database")
	}
	require.Len(t, addresses, 3)
	slices.Sort(published)
	require.Equal(t, []string{"48001", "48002", "48003", "8080"}, published)
	require.NotContains(t, nginx.Networks, "database")

	// nginx's command puts these addresses, and no others, in the place of those of the configuration.
	require.Equal(t, []string{"sh", "-c"}, []string(nginx.Command[:2]))
	edit, _, found := strings.Cut(nginx.Command[2], " > ")
	require.True(t, found)
	require.Equal(t, "/etc/nginx/goverse.conf", nginx.Volumes[0].Target)
	edited, err := exec.Command("sh", "-c", strings.Replace(edit, nginx.Volumes[0].Target, nginx.Volumes[0].Source, 1)).
		CombinedOutput()
	require.NoError(t, err, string(edited))
	for _, address := range addresses {
		require.Equal(t, 2, strings.Count(string(edited), address), "among the reads, and behind a door")
	}
	require.NotContains(t, string(edited), "10.0.0.")
}

// Another password reaches both sides.
func TestComposeWithAPassword(t *testing.T) {
	text := strings.ReplaceAll(read(t, postgresComposeFile), "${POSTGRES_PASSWORD:-goverse}", "other")
	project, err := compose(t.Context(), text)
	require.NoError(t, err)
	require.Equal(t, "other", *project.Services["postgres"].Environment["POSTGRES_PASSWORD"])
	require.Contains(t, *project.Services["controller2"].Environment["DATABASE_URL"], ":other@")
}
