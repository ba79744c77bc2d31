package deploy

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	kmeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	sigsyaml "sigs.k8s.io/yaml"
)

// manifests returns the output of `kubectl apply -k`, built by kustomize.
func manifests(t *testing.T, dir string) []byte {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	require.NoError(t, err)
	text, err := built.AsYaml()
	require.NoError(t, err)
	return text
}

// strategies are the API server's strategies for creating objects.
var strategies = map[string]rest.RESTCreateStrategy{"Namespace": namespace.Strategy, "ConfigMap": configmap.Strategy,
	"Service": service.Strategy, "ServiceAccount": serviceaccount.Strategy, "StatefulSet": statefulset.Strategy,
	"Deployment": deployment.Strategy, "NetworkPolicy": networkpolicy.Strategy,
	"PodDisruptionBudget": poddisruptionbudget.Strategy}

// create processes one object as the API server does before it stores it: it decodes it strictly, sets the
// defaults, and validates it. Warnings are errors here.
func create(ctx context.Context, text []byte) (runtime.Object, error) {
	var meta metav1.PartialObjectMetadata
	if err := sigsyaml.Unmarshal(text, &meta); err != nil {
		return nil, err
	}
	object, err := legacyscheme.Scheme.New(meta.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := sigsyaml.UnmarshalStrict(text, object); err != nil {
		return nil, fmt.Errorf("%s %s: %w", meta.Kind, meta.Name, err)
	}
	legacyscheme.Scheme.Default(object)
	stored := object.DeepCopyObject()
	if s, ok := stored.(*corev1.Service); ok { // the server allocates these
		s.Spec.ClusterIP = cmp.Or(s.Spec.ClusterIP, "10.96.0.10")
		s.Spec.ClusterIPs, s.Spec.IPFamilies = []string{s.Spec.ClusterIP}, []corev1.IPFamily{corev1.IPv4Protocol}
		s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
	}
	internal, err := legacyscheme.Scheme.UnsafeConvertToVersion(stored, runtime.InternalGroupVersioner)
	if err != nil {
		return nil, err
	}
	ctx = request.WithNamespace(ctx, meta.Namespace)
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{APIGroup: meta.GroupVersionKind().Group,
		APIVersion: meta.GroupVersionKind().Version, Namespace: meta.Namespace, Name: meta.Name, Verb: "create"})
	strategy, ok := strategies[meta.Kind]
	if !ok {
		return nil, fmt.Errorf("%s: nothing here validates it", meta.Kind)
	}
	system, err := kmeta.Accessor(internal)
	if err != nil {
		return nil, err
	}
	rest.FillObjectMetaSystemFields(system)
	if err := rest.BeforeCreate(strategy, ctx, internal); err != nil {
		return nil, err
	}
	if warnings := strategy.WarningsOnCreate(ctx, internal); len(warnings) > 0 {
		return nil, fmt.Errorf("%s %s: %s", meta.Kind, meta.Name, strings.Join(warnings, "; "))
	}
	return object, nil
}

// createAll creates all objects of a file.
func createAll(ctx context.Context, text []byte) (all []runtime.Object, err error) {
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		object, err := create(ctx, document)
		if err != nil {
			return nil, err
		}
		all = append(all, object)
	}
}

// of returns the objects of one type.
func of[T runtime.Object](all []runtime.Object) (found []T) {
	for _, o := range all {
		if o, ok := o.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// restricted returns an error if the pods violate the Pod Security Standard of that name.
func restricted(meta *metav1.ObjectMeta, spec *corev1.PodSpec) error {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, meta, spec))
	if !result.Allowed {
		return errors.New(result.ForbiddenDetail())
	}
	return nil
}

func TestKubernetes(t *testing.T) {
	all, err := createAll(t.Context(), manifests(t, "kubernetes"))
	require.NoError(t, err)
	sets := of[*appsv1.StatefulSet](all)
	require.Len(t, sets, 1)
	template := sets[0].Spec.Template
	require.NoError(t, restricted(&template.ObjectMeta, &template.Spec))

	// The selectors of pods match these pods.
	labelled := labels.Set(template.Labels)
	services := of[*corev1.Service](all)
	require.Len(t, services, 2)
	for _, s := range services {
		require.True(t, labels.SelectorFromSet(s.Spec.Selector).Matches(labelled), s.Name)
	}
	budget, network := of[*policyv1.PodDisruptionBudget](all)[0], of[*networkingv1.NetworkPolicy](all)[0]
	selectors := []*metav1.LabelSelector{sets[0].Spec.Selector, budget.Spec.Selector, &network.Spec.PodSelector}
	for _, spread := range template.Spec.TopologySpreadConstraints {
		selectors = append(selectors, spread.LabelSelector)
	}
	for _, selector := range selectors {
		matching, err := metav1.LabelSelectorAsSelector(selector)
		require.NoError(t, err)
		require.True(t, matching.Matches(labelled), selector)
	}

	// A node's name resolves before the node is ready.
	require.Equal(t, sets[0].Spec.ServiceName, services[0].Name)
	require.Equal(t, corev1.ClusterIPNone, services[0].Spec.ClusterIP)
	require.True(t, services[0].Spec.PublishNotReadyAddresses)
	require.False(t, services[1].Spec.PublishNotReadyAddresses)

	container := template.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
	}
	env := map[string]string{}
	for _, e := range container.Env {
		env[e.Name] = e.Value
		require.True(t, !strings.HasPrefix(e.Name, "GOVERSE_") || isVariable(t, e.Name), e.Name)
	}
	require.Equal(t, env["GOVERSE_LISTEN"], fmt.Sprint(":", ports["grpc"]))
	require.Equal(t, env["GOVERSE_HTTP"], fmt.Sprint(":", ports["http"]))
	require.Contains(t, env["GOVERSE_ADVERTISE"], "$(POD_NAME)."+services[0].Name+".$(POD_NAMESPACE).svc:")
	config := of[*corev1.ConfigMap](all)[0]
	require.Equal(t, config.Name, container.EnvFrom[0].ConfigMapRef.Name)
	for name := range config.Data {
		require.True(t, isVariable(t, name), name)
	}
	require.True(t, strings.HasPrefix(env["GOVERSE_ETCD_PASSWORD_FILE"], container.VolumeMounts[0].MountPath+"/"))

	// Reads stay routed while etcd is away, and no probe restarts a node for that.
	require.Equal(t, "/readyz/reads", container.ReadinessProbe.HTTPGet.Path)
	require.Equal(t, "/livez", container.LivenessProbe.HTTPGet.Path)
	require.Equal(t, "/livez", container.StartupProbe.HTTPGet.Path)

	// The drain and the stop fit into the pod's termination time.
	drain := container.Lifecycle.PreStop.Exec.Command
	draining, err := time.ParseDuration(drain[len(drain)-1])
	require.NoError(t, err)
	const stopTimeout = 15 * time.Second
	require.Contains(t, read(t, "..", "cmd", "goversed", "node.go"), `"stop-timeout", 15*time.Second`)
	require.Greater(t, time.Duration(*template.Spec.TerminationGracePeriodSeconds)*time.Second, draining+stopTimeout)
	startup := container.StartupProbe
	require.Greater(t, time.Duration(startup.PeriodSeconds*startup.FailureThreshold)*time.Second, 30*time.Second)
}

// The checks above detect faults.
func TestBadManifestsAreRefused(t *testing.T) {
	text := string(manifests(t, "kubernetes"))
	for change, says := range map[[2]string]string{
		{"publishNotReadyAddresses: true", "publishNotReadyAdresses: true"}:    "unknown field",
		{"runAsNonRoot: true", "runAsNonRoot: 1"}:                              "cannot unmarshal",
		{"targetPort: grpc", "targetPort: gRPC_port"}:                          "spec.ports[0].targetPort",
		{"maxUnavailable: 1", "maxUnavailable: 1\n  minAvailable: 1"}:          "cannot be both set",
		{"serviceName: goverse", "serviceName: Goverse"}:                       "spec.serviceName",
		{"failureThreshold: 3", "failureThreshold: -3"}:                        "livenessProbe.failureThreshold",
		{"mountPath: /etc/goverse/etcd", "mountPath: ''"}:                      "mountPath",
		{"secretName: goverse-etcd", "secret: goverse-etcd"}:                   "unknown field",
		{"name: etcd-password\n        secret", "name: other\n        secret"}: "volumeMounts[0].name",
	} {
		bad := strings.Replace(text, change[0], change[1], 1)
		require.NotEqual(t, text, bad, change[0])
		_, err := createAll(t.Context(), []byte(bad))
		require.ErrorContains(t, err, says, change[1])
	}
	all, err := createAll(t.Context(), []byte(strings.Replace(text, "readOnlyRootFilesystem: true",
		"readOnlyRootFilesystem: true\n          privileged: true", 1)))
	if err == nil { // the API server rejects this together with allowPrivilegeEscalation
		template := of[*appsv1.StatefulSet](all)[0].Spec.Template
		err = restricted(&template.ObjectMeta, &template.Spec)
	}
	require.Error(t, err)
	all, err = createAll(t.Context(), []byte(strings.Replace(text, "type: RuntimeDefault", "type: Unconfined", 1)))
	require.NoError(t, err)
	template := of[*appsv1.StatefulSet](all)[0].Spec.Template
	require.ErrorContains(t, restricted(&template.ObjectMeta, &template.Spec), "seccompProfile")
}

func TestServiceMonitor(t *testing.T) {
	var monitor monitoringv1.ServiceMonitor
	require.NoError(t, sigsyaml.UnmarshalStrict(manifests(t, "kubernetes/monitoring"), &monitor))
	all, err := createAll(t.Context(), manifests(t, "kubernetes"))
	require.NoError(t, err)
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	require.NoError(t, err)
	var found []*corev1.Service
	for _, s := range of[*corev1.Service](all) {
		if selector.Matches(labels.Set(s.Labels)) {
			found = append(found, s)
		}
	}
	require.Len(t, found, 1, "each node is scraped once")
	require.True(t, found[0].Spec.PublishNotReadyAddresses)
	require.True(t, slices.ContainsFunc(found[0].Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Name == monitor.Spec.Endpoints[0].Port
	}))
	require.Equal(t, found[0].Namespace, monitor.Namespace)
}
