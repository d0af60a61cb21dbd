package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// container is what to run for a pod.
type container struct {
	path string
	args []string
	env  []string
}

// addresses counts those given out by all kubelets of this program.
var addresses atomic.Uint32

// address is a loopback address that no other pod of this machine has just now: the process id tells test
// programs apart, a counter their pods.
func address() string {
	const perProgram = 8000
	pid, n := os.Getpid(), addresses.Add(1)%perProgram
	return net.IPv4(127, byte(64+pid%128), byte(pid/128%8)*32+byte(n/250), byte(1+n%250)).String()
}

// container makes what the pod's only container needs.
func (p *Pod) container(ctx context.Context) (*container, error) {
	if n := len(p.object.Spec.Containers); n != 1 {
		return nil, fmt.Errorf("a pod of %d containers: only one is run here", n)
	}
	c := &p.object.Spec.Containers[0]
	home := filepath.Join(p.dir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	kubeconfig, err := p.kubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	mounts, err := p.mounts(ctx, c)
	if err != nil {
		return nil, err
	}
	own, err := p.environment(ctx, c)
	if err != nil {
		return nil, err
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "HOSTNAME=" + p.Name, "KUBECONFIG=" + kubeconfig}
	env = append(env, p.kubelet.Env...)
	for _, v := range own {
		env = append(env, v.name+"="+p.here(v.value, mounts))
	}
	// Before the command is what starts it; its own name is that of the image's program, whatever it is
	// called there.
	var args []string
	for _, a := range slices.Concat(c.Command[min(1, len(c.Command)):], c.Args) {
		args = append(args, p.here(expand(a, own), mounts))
	}
	command := append([]string{p.kubelet.Program}, args...)
	if p.kubelet.Before != nil {
		command = append(p.kubelet.Before(p.object), command...)
	}
	return &container{command[0], command[1:], env}, nil
}

// kubeconfig holds a token of the pod's ServiceAccount, fresh for each start.
func (p *Pod) kubeconfig(ctx context.Context) (string, error) {
	path := filepath.Join(p.dir, "kubeconfig")
	name := p.object.Spec.ServiceAccountName
	if name == "" {
		name = "default"
	}
	token, err := p.kubelet.Plane.Token(ctx, p.object.Namespace, name)
	if err != nil {
		if _, statErr := os.Stat(path); statErr == nil {
			return path, nil // the API server is away, and a container that starts again has its token still
		}
		return "", err
	}
	return path, p.kubelet.Plane.WriteKubeconfig(path, p.object.Namespace, token)
}

var everywhere = regexp.MustCompile(`^(|.*=)(?:0\.0\.0\.0|\[::\])?(:\d{1,5})$`)

// here is an argument or a variable's value as it has to be on this machine.
func (p *Pod) here(value string, mounts map[string]string) string {
	for from, to := range mounts {
		if value == from || strings.HasPrefix(value, from+"/") {
			return to + value[len(from):]
		}
		if flag, path, found := strings.Cut(value, "="); found && (path == from || strings.HasPrefix(path, from+"/")) {
			return flag + "=" + to + path[len(from):]
		}
	}
	return everywhere.ReplaceAllString(value, "${1}"+p.IP+"${2}")
}

// probeURL is where a probe asks.
func (p *Pod) probeURL(c *corev1.Container, a *corev1.HTTPGetAction) string {
	port := a.Port.IntValue()
	if a.Port.Type == intstr.String {
		for i := range c.Ports {
			if c.Ports[i].Name == a.Port.StrVal {
				port = int(c.Ports[i].ContainerPort)
			}
		}
	}
	scheme := "http"
	if a.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(p.IP, strconv.Itoa(port)) + "/" + strings.TrimPrefix(a.Path, "/")
}

// URL is where the pod's process listens, as its first port says.
func (p *Pod) URL() string {
	port := 0
	if ports := p.object.Spec.Containers[0].Ports; len(ports) > 0 {
		port = int(ports[0].ContainerPort)
	}
	return "http://" + net.JoinHostPort(p.IP, strconv.Itoa(port))
}

type variable struct{ name, value string }

// expand replaces $(NAME), as in arguments; $$ is a $.
func expand(s string, vars []variable) string {
	return reference.ReplaceAllStringFunc(s, func(found string) string {
		if found == "$$" {
			return "$"
		}
		name := found[2 : len(found)-1]
		for _, v := range slices.Backward(vars) {
			if v.name == name {
				return v.value
			}
		}
		return found
	})
}

var reference = regexp.MustCompile(`\$\$|\$\([A-Za-z_][A-Za-z0-9_.-]*\)`)

// environment is what the pod says of it.
func (p *Pod) environment(ctx context.Context, c *corev1.Container) ([]variable, error) {
	var all []variable
	for i := range c.EnvFrom {
		more, err := p.envFrom(ctx, &c.EnvFrom[i])
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	for i := range c.Env {
		e := &c.Env[i]
		if e.ValueFrom == nil {
			all = append(all, variable{e.Name, expand(e.Value, all)})
			continue
		}
		value, found, err := p.valueFrom(ctx, c, e.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", e.Name, err)
		}
		if found {
			all = append(all, variable{e.Name, value})
		}
	}
	return all, nil
}

func (p *Pod) envFrom(ctx context.Context, from *corev1.EnvFromSource) (all []variable, err error) {
	var data map[string]string
	switch {
	case from.ConfigMapRef != nil:
		data, err = p.configMap(ctx, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
	case from.SecretRef != nil:
		data, err = p.secret(ctx, from.SecretRef.Name, from.SecretRef.Optional)
	}
	for name, value := range data {
		all = append(all, variable{from.Prefix + name, value})
	}
	return all, err
}

func (p *Pod) valueFrom(ctx context.Context, c *corev1.Container, from *corev1.EnvVarSource) (value string, found bool, err error) {
	var data map[string]string
	switch {
	case from.FieldRef != nil:
		value, err = p.field(from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.ResourceFieldRef != nil:
		value, err = resourceOf(c, from.ResourceFieldRef)
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		data, err = p.configMap(ctx, from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Optional)
		value, found = data[from.ConfigMapKeyRef.Key]
		if !found && err == nil && !optional(from.ConfigMapKeyRef.Optional) {
			err = fmt.Errorf("no key %s in ConfigMap %s", from.ConfigMapKeyRef.Key, from.ConfigMapKeyRef.Name)
		}
	case from.SecretKeyRef != nil:
		data, err = p.secret(ctx, from.SecretKeyRef.Name, from.SecretKeyRef.Optional)
		value, found = data[from.SecretKeyRef.Key]
		if !found && err == nil && !optional(from.SecretKeyRef.Optional) {
			err = fmt.Errorf("no key %s in Secret %s", from.SecretKeyRef.Key, from.SecretKeyRef.Name)
		}
	default:
		err = errors.New("this source of a variable is not known here")
	}
	return value, found, err
}

func optional(b *bool) bool { return b != nil && *b }

// field is what the downward API says.
func (p *Pod) field(path string) (string, error) {
	if name, found := strings.CutPrefix(path, "metadata.labels['"); found {
		return p.object.Labels[strings.TrimSuffix(name, "']")], nil
	}
	if name, found := strings.CutPrefix(path, "metadata.annotations['"); found {
		return p.object.Annotations[strings.TrimSuffix(name, "']")], nil
	}
	value, known := map[string]string{
		"metadata.name": p.Name, "metadata.namespace": p.object.Namespace, "metadata.uid": string(p.object.UID),
		"spec.nodeName": nodeName, "spec.serviceAccountName": p.object.Spec.ServiceAccountName,
		"status.podIP": p.IP, "status.podIPs": p.IP, "status.hostIP": "127.0.0.1",
	}[path]
	if !known {
		return "", fmt.Errorf("field %s is not known here", path)
	}
	return value, nil
}

func resourceOf(c *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	kind, name, _ := strings.Cut(ref.Resource, ".")
	list := c.Resources.Requests
	if kind == "limits" {
		list = c.Resources.Limits
	}
	q, found := list[corev1.ResourceName(name)]
	if !found {
		return "", fmt.Errorf("resource %s is not set", ref.Resource)
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == "cpu" {
		return strconv.FormatInt((q.MilliValue()+divisor.MilliValue()-1)/divisor.MilliValue(), 10), nil
	}
	return strconv.FormatInt((q.Value()+divisor.Value()-1)/divisor.Value(), 10), nil
}

func (p *Pod) configMap(ctx context.Context, name string, opt *bool) (map[string]string, error) {
	return p.held("ConfigMap "+name, opt, func() (map[string]string, error) {
		m, err := p.kubelet.client.CoreV1().ConfigMaps(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return m.Data, nil
	})
}

func (p *Pod) secret(ctx context.Context, name string, opt *bool) (map[string]string, error) {
	return p.held("Secret "+name, opt, func() (map[string]string, error) {
		s, err := p.kubelet.client.CoreV1().Secrets(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		data := map[string]string{}
		for key, value := range s.Data {
			data[key] = string(value)
		}
		return data, nil
	})
}

// held reads what an object holds. While the API server is away a container that starts again gets what it
// had.
func (p *Pod) held(what string, opt *bool, read func() (map[string]string, error)) (map[string]string, error) {
	data, err := read()
	switch {
	case err == nil:
		p.known[what] = data
		return data, nil
	case apierrors.IsNotFound(err):
		if optional(opt) {
			return nil, nil
		}
		return nil, err
	}
	if data, found := p.known[what]; found {
		return data, nil
	}
	return nil, err
}
