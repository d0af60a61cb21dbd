package kubelet

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mounts fills the container's volumes and says in which folder each mount path is.
func (p *Pod) mounts(ctx context.Context, c *corev1.Container) (map[string]string, error) {
	all := map[string]string{}
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		v := p.volume(m.Name)
		if v == nil {
			return nil, fmt.Errorf("no volume %s", m.Name)
		}
		dir := filepath.Join(p.dir, "volumes", m.Name)
		if v.PersistentVolumeClaim != nil {
			var err error
			if dir, err = p.claim(ctx, v.PersistentVolumeClaim.ClaimName); err != nil {
				return nil, fmt.Errorf("volume %s: %w", m.Name, err)
			}
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		if err := p.fill(ctx, dir, v); err != nil {
			return nil, fmt.Errorf("volume %s: %w", m.Name, err)
		}
		all[m.MountPath] = filepath.Join(dir, m.SubPath)
	}
	return all, nil
}

// claim is the folder of a claim, which outlives its pods. It is bound at its first use, as one of a StorageClass that
// waits for a consumer is.
func (p *Pod) claim(ctx context.Context, name string) (string, error) {
	claims := p.kubelet.client.CoreV1().PersistentVolumeClaims(p.object.Namespace)
	claim, err := claims.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if claim.Status.Phase != corev1.ClaimBound {
		claim.Status.Phase = corev1.ClaimBound
		if _, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return "", err
		}
	}
	return filepath.Join(p.kubelet.dir, "claims", string(claim.UID)), nil
}

func (p *Pod) volume(name string) *corev1.Volume {
	for i := range p.object.Spec.Volumes {
		if v := &p.object.Spec.Volumes[i]; v.Name == name {
			return v
		}
	}
	return nil
}

// fill writes what the volume holds.
func (p *Pod) fill(ctx context.Context, dir string, v *corev1.Volume) error {
	var data map[string]string
	var err error
	switch {
	case v.EmptyDir != nil, v.PersistentVolumeClaim != nil:
	case v.ConfigMap != nil:
		data, err = p.configMap(ctx, v.ConfigMap.Name, v.ConfigMap.Optional)
		data = renamed(data, v.ConfigMap.Items)
	case v.Secret != nil:
		data, err = p.secret(ctx, v.Secret.SecretName, v.Secret.Optional)
		data = renamed(data, v.Secret.Items)
	case v.Projected != nil:
		data, err = p.projected(ctx, v.Projected)
	default:
		return fmt.Errorf("this kind of volume is not known here")
	}
	if err != nil {
		return err
	}
	for name, value := range data {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pod) projected(ctx context.Context, v *corev1.ProjectedVolumeSource) (map[string]string, error) {
	all := map[string]string{}
	for i := range v.Sources {
		s := &v.Sources[i]
		var data map[string]string
		var err error
		switch {
		case s.ConfigMap != nil:
			data, err = p.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Optional)
			data = renamed(data, s.ConfigMap.Items)
		case s.Secret != nil:
			data, err = p.secret(ctx, s.Secret.Name, s.Secret.Optional)
			data = renamed(data, s.Secret.Items)
		case s.ServiceAccountToken != nil:
			var token string
			token, err = p.kubelet.Plane.Token(ctx, p.object.Namespace, p.object.Spec.ServiceAccountName)
			data = map[string]string{s.ServiceAccountToken.Path: token}
		case s.DownwardAPI != nil:
			data = map[string]string{}
			for j := range s.DownwardAPI.Items {
				item := &s.DownwardAPI.Items[j]
				if data[item.Path], err = p.field(item.FieldRef.FieldPath); err != nil {
					break
				}
			}
		default:
			err = fmt.Errorf("this kind of projected volume is not known here")
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(all, data)
	}
	return all, nil
}

// renamed is the part of the data that the items name, under their paths; all of it when there are none.
func renamed(data map[string]string, items []corev1.KeyToPath) map[string]string {
	if len(items) == 0 {
		return data
	}
	all := map[string]string{}
	for _, item := range items {
		if value, found := data[item.Key]; found {
			all[item.Path] = value
		}
	}
	return all
}
