package deploy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestKubernetesWithPostgres(t *testing.T) {
	all, err := createAll(t.Context(), manifests(t, "kubernetes/postgres"))
	require.NoError(t, err)
	require.Len(t, all, 6)
	d := of[*appsv1.Deployment](all)[0]
	template := d.Spec.Template
	require.NoError(t, restricted(&template.ObjectMeta, &template.Spec))
	require.EqualValues(t, 2, *d.Spec.Replicas)

	// A roll-out leaves no gap: an old copy stops after a new one was ready.
	require.Zero(t, d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue())
	require.Equal(t, 1, d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue())

	// The selectors of pods match these pods.
	service, budget := of[*corev1.Service](all)[0], of[*policyv1.PodDisruptionBudget](all)[0]
	network := of[*networkingv1.NetworkPolicy](all)[0]
	require.True(t, labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(template.Labels)))
	selectors := []*metav1.LabelSelector{d.Spec.Selector, budget.Spec.Selector, &network.Spec.PodSelector}
	for _, spread := range template.Spec.TopologySpreadConstraints {
		selectors = append(selectors, spread.LabelSelector)
		// With DoNotSchedule, two hosts would have no place for the third copy of a roll-out.
		require.Equal(t, corev1.ScheduleAnyway, spread.WhenUnsatisfiable)
	}
	for _, selector := range selectors {
		matching, err := metav1.LabelSelectorAsSelector(selector)
		require.NoError(t, err)
		require.True(t, matching.Matches(labels.Set(template.Labels)), selector)
	}

	container := template.Spec.Containers[0]
	require.Equal(t, container.Ports[0].Name, service.Spec.Ports[0].TargetPort.StrVal)
	at := fmt.Sprint(":", container.Ports[0].ContainerPort)
	require.Equal(t, []string{"-http", at, "-advertise", "$(POD_IP)" + at, "-elsewhere", "forward"}, container.Args)
	require.Equal(t, "POD_IP", container.Env[0].Name)
	require.Equal(t, "status.podIP", container.Env[0].ValueFrom.FieldRef.FieldPath)
	require.Equal(t, "DATABASE_URL", container.Env[1].Name)
	secret := container.Env[1].ValueFrom.SecretKeyRef
	require.Contains(t, read(t, "kubernetes", "postgres", "kustomization.yaml"),
		"create secret generic "+secret.Name+" --from-literal="+secret.Key+"=")
	// The program knows these flags, and this variable.
	program := read(t, "..", "examples", "controller", "main.go")
	for _, known := range []string{`"http", `, `"advertise", `, `"elsewhere", `, `"forward": `, `"DATABASE_URL"`} {
		require.Contains(t, program, known)
	}

	require.Equal(t, "/livez", container.StartupProbe.HTTPGet.Path)
	require.Equal(t, "/livez", container.LivenessProbe.HTTPGet.Path)
	require.Equal(t, "/readyz", container.ReadinessProbe.HTTPGet.Path)
	startup := container.StartupProbe
	require.Greater(t, time.Duration(startup.PeriodSeconds*startup.FailureThreshold)*time.Second, 30*time.Second)
	require.Contains(t, program, "startTimeout, stopTimeout = 30 * time.Second, 15 * time.Second")
	pause := time.Duration(container.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	require.Greater(t, time.Duration(*template.Spec.TerminationGracePeriodSeconds)*time.Second, pause+2*15*time.Second)
}

// The checks above detect faults.
func TestBadManifestsWithPostgresAreRefused(t *testing.T) {
	text := string(manifests(t, "kubernetes/postgres"))
	for change, says := range map[[2]string]string{
		{"maxUnavailable: 0", "maxUnavailable: -1"}:                     "maxUnavailable",
		{"maxSurge: 1", "maxSurge: 0"}:                                  "may not be 0 when `maxSurge` is 0",
		{"preStop:\n            sleep", "preStop:\n            sleeps"}: "unknown field",
		{"key: DATABASE_URL", "key: DATABASE/URL"}:                      "secretKeyRef.key",
		{"targetPort: http", "targetPort: HTTP_port"}:                   "targetPort",
	} {
		bad := strings.Replace(text, change[0], change[1], 1)
		require.NotEqual(t, text, bad, change[0])
		_, err := createAll(t.Context(), []byte(bad))
		require.ErrorContains(t, err, says, change[1])
	}
	all, err := createAll(t.Context(), []byte(strings.Replace(text, "runAsNonRoot: true", "runAsNonRoot: false", 1)))
	require.NoError(t, err)
	template := of[*appsv1.Deployment](all)[0].Spec.Template
	require.ErrorContains(t, restricted(&template.ObjectMeta, &template.Spec), "runAsNonRoot")
}
