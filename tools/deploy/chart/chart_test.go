// Package chart tests the Helm chart and the compose file.
package chart

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const folder = "../../../deploy/helm/fencepost"

// serviceMonitor and prometheusRule are the parts of the operator's types that the chart uses.
type (
	serviceMonitor struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Selector  metav1.LabelSelector `json:"selector"`
			Endpoints []struct {
				Port     string `json:"port"`
				Path     string `json:"path"`
				Interval string `json:"interval"`
			} `json:"endpoints"`
		} `json:"spec"`
	}
	prometheusRule struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Groups []struct {
				Name  string `json:"name"`
				Rules []struct {
					Alert       string            `json:"alert"`
					Expr        string            `json:"expr"`
					For         string            `json:"for"`
					Labels      map[string]string `json:"labels"`
					Annotations map[string]string `json:"annotations"`
				} `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
)

// kinds are the objects of the chart, by kind.
var kinds = map[string]func() any{
	"ConfigMap":           func() any { return &corev1.ConfigMap{} },
	"Service":             func() any { return &corev1.Service{} },
	"ServiceAccount":      func() any { return &corev1.ServiceAccount{} },
	"Deployment":          func() any { return &appsv1.Deployment{} },
	"Job":                 func() any { return &batchv1.Job{} },
	"PodDisruptionBudget": func() any { return &policyv1.PodDisruptionBudget{} },
	"NetworkPolicy":       func() any { return &networkingv1.NetworkPolicy{} },
	"ServiceMonitor":      func() any { return &serviceMonitor{} },
	"PrometheusRule":      func() any { return &prometheusRule{} },
}

// texts renders the chart.
func texts(t *testing.T, values map[string]any) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := chartutil.ValidateAgainstSchema(chart, values); err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{
		Name: "pay", Namespace: "money", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Render(chart, all)
}

// render renders the chart and decodes every object strictly: an unknown field is an error.
func render(t *testing.T, values map[string]any) map[string][]any {
	t.Helper()
	rendered, err := texts(t, values)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string][]any{}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		for document := range strings.SplitSeq(rendered[name], "\n---\n") {
			if strings.TrimSpace(document) == "" {
				continue
			}
			var kind metav1.TypeMeta
			if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, document)
			}
			if kinds[kind.Kind] == nil {
				t.Fatalf("%s has an unknown kind %q", name, kind.Kind)
			}
			object := kinds[kind.Kind]()
			if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
				t.Errorf("%s: %v\n%s", name, err, document)
			}
			objects[kind.Kind] = append(objects[kind.Kind], object)
		}
	}
	return objects
}

func TestChart_Lint(t *testing.T) {
	t.Parallel()
	result := lint.All(folder, map[string]any{}, "money", true)
	for _, m := range result.Messages {
		if m.Severity > support.InfoSev {
			t.Errorf("%s: %v", m.Path, m.Err)
		}
	}
}

// TestChart_Matrix renders all combinations of the switches.
func TestChart_Matrix(t *testing.T) {
	t.Parallel()
	config := map[string]any{
		"chains":   []any{map[string]any{"name": "main", "chain_id": 1}},
		"database": map[string]any{"schema": "pay"},
	}
	switches := []func(map[string]any, bool){
		func(v map[string]any, on bool) { v["podDisruptionBudget"] = enabled(on) },
		func(v map[string]any, on bool) { v["networkPolicy"] = enabled(on) },
		func(v map[string]any, on bool) { v["serviceMonitor"] = enabled(on) },
		func(v map[string]any, on bool) { v["prometheusRule"] = enabled(on) },
		func(v map[string]any, on bool) { v["migrate"] = enabled(on) },
		func(v map[string]any, on bool) {
			secret := map[bool]string{true: "s"}[on]
			v["tls"] = map[string]any{"secretName": secret}
			v["tokens"] = map[string]any{"secretName": secret}
			v["keystore"] = map[string]any{"keysSecretName": secret, "passwordSecretName": secret}
		},
		func(v map[string]any, on bool) {
			if on {
				v["config"], v["replicas"] = config, 5
				v["imagePullSecrets"] = []any{map[string]any{"name": "pull"}}
				v["tolerations"] = []any{map[string]any{"key": "k", "operator": "Exists"}}
				v["nodeSelector"] = map[string]any{"disk": "fast"}
				v["podAnnotations"] = map[string]any{"a": "b"}
				v["extraEnv"] = []any{
					map[string]any{"name": "FENCEPOST_LOG_FORMAT", "value": "json"},
				}
			}
		},
	}
	text, err := os.ReadFile(filepath.Join(folder, "ci", "full-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	switches = append(switches, func(v map[string]any, on bool) {
		var full map[string]any
		if err := yaml.Unmarshal(text, &full); err != nil {
			t.Error(err)
		}
		if on {
			maps.Copy(v, full)
		}
	})
	for n := range 1 << len(switches) {
		t.Run(fmt.Sprintf("%08b", n), func(t *testing.T) {
			t.Parallel()
			values := map[string]any{}
			for i, set := range switches {
				set(values, n>>i&1 == 1)
			}
			objects := render(t, values)
			for i, kind := range []string{"PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor",
				"PrometheusRule", "Job"} {
				if want := n >> i & 1; len(objects[kind]) != want {
					t.Errorf("%d of %s, want %d", len(objects[kind]), kind, want)
				}
			}
			pod := objects["Deployment"][0].(*appsv1.Deployment)
			verifyPod(t, pod)
			if n>>7 == 1 {
				verifyMounted(t, objects["ConfigMap"][0].(*corev1.ConfigMap), pod)
			}
		})
	}
}

func enabled(on bool) map[string]any { return map[string]any{"enabled": on} }

// verifyPod checks that probes and mounts refer to what the pod has, and that it cannot be root.
func verifyPod(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	ports, volumes := map[string]bool{}, map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if !ports[probe.HTTPGet.Port.StrVal] {
			t.Errorf("a probe uses port %s", probe.HTTPGet.Port.StrVal)
		}
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] || !m.ReadOnly {
			t.Errorf("mount %v", m)
		}
		delete(volumes, m.Name)
	}
	if len(volumes) > 0 {
		t.Errorf("volumes without a mount: %v", volumes)
	}
	if !*pod.SecurityContext.RunAsNonRoot || *c.SecurityContext.AllowPrivilegeEscalation ||
		!*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Error("the container is not restricted")
	}
	if d.Spec.Selector.MatchLabels["app.kubernetes.io/instance"] != "pay" {
		t.Errorf("the selector is %v", d.Spec.Selector)
	}
}

// verifyMounted checks that every file in the configuration is in a folder that the pod has.
func verifyMounted(t *testing.T, c *corev1.ConfigMap, d *appsv1.Deployment) {
	t.Helper()
	named := regexp.MustCompile(`/etc/fencepost/secrets/[a-z0-9/.-]+`).FindAllString(
		c.Data["fencepost.yaml"], -1)
	if len(named) < 6 {
		t.Errorf("the configuration names %v", named)
	}
	for _, file := range named {
		if !slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].VolumeMounts,
			func(m corev1.VolumeMount) bool { return m.MountPath == filepath.Dir(file) }) {
			t.Errorf("nothing is mounted at %s", file)
		}
	}
}

// TestChart_SeveralLedgers: nodes and migrations take each URL from the entry with its name.
func TestChart_SeveralLedgers(t *testing.T) {
	t.Parallel()
	objects := render(t, map[string]any{"config": map[string]any{
		"directory": map[string]any{"schema": "names"},
		"ledgers": []any{
			map[string]any{"name": "eu.1", "schema": "pay"}, map[string]any{"name": "us1"},
		},
	}})
	pod := objects["Deployment"][0].(*appsv1.Deployment)
	verifyPod(t, pod)
	files := map[string]string{}
	for _, e := range pod.Spec.Template.Spec.Containers[0].Env {
		if strings.HasSuffix(e.Name, "_URL_FILE") {
			files[e.Name] = e.Value
		}
	}
	if want := map[string]string{
		"FENCEPOST_LEDGERS_EU_1_URL_FILE": "/etc/fencepost/database/eu.1",
		"FENCEPOST_LEDGERS_US1_URL_FILE":  "/etc/fencepost/database/us1",
		"FENCEPOST_DIRECTORY_URL_FILE":    "/etc/fencepost/database/directory",
	}; !maps.Equal(files, want) {
		t.Errorf("the node has %v, want %v", files, want)
	}
	var migrated []string
	for _, c := range objects["Job"][0].(*batchv1.Job).Spec.Template.Spec.Containers {
		migrated = append(migrated, fmt.Sprintf("%s %s %v", c.Name,
			c.Env[0].ValueFrom.SecretKeyRef.Key, c.Args))
	}
	if want := []string{
		"migrate-eu-1 eu.1 [migrate up --schema=pay]",
		"migrate-us1 us1 [migrate up]",
		"migrate-directory directory [migrate up --schema=names]",
	}; !slices.Equal(migrated, want) {
		t.Errorf("the job runs %q, want %q", migrated, want)
	}
}

func TestChart_LedgerNamedDirectory_Rejected(t *testing.T) {
	t.Parallel()
	_, err := texts(t, map[string]any{"config": map[string]any{
		"ledgers": []any{map[string]any{"name": "eu1"}, map[string]any{"name": "directory"}},
	}})
	if err == nil || !strings.Contains(err.Error(), "a ledger must not be named directory") {
		t.Error(err)
	}
}

func TestChart_UnknownValue_Rejected(t *testing.T) {
	t.Parallel()
	chart, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	values, err := chartutil.CoalesceValues(chart, map[string]any{"replica": 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := chartutil.ValidateAgainstSchema(chart, values); err == nil {
		t.Error("a misspelled value was accepted")
	}
}

// TestDecoding_UnknownField_Rejected shows that decoding is strict.
func TestDecoding_UnknownField_Rejected(t *testing.T) {
	t.Parallel()
	document := []byte("kind: Service\nspec: {port: 1}\n")
	if err := yaml.UnmarshalStrict(bytes.TrimSpace(document), &corev1.Service{}); err == nil {
		t.Error("an unknown field was accepted")
	}
}
