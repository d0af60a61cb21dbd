package kubelet

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// probeClient looks at no certificate, as a kubelet's does not.
var probeClient = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// errNotReady is what a probe was answered that was not one of success.
var errNotReady = errors.New("not a status of success")

// probe runs the container's probes. It closes unalive, and ends, when the container has to be started again.
func (p *Pod) probe(ctx context.Context, c *corev1.Container, unalive chan<- struct{}) {
	if c.StartupProbe != nil && !p.startup(ctx, c) {
		if ctx.Err() == nil {
			close(unalive)
		}
		return
	}
	var all sync.WaitGroup
	all.Go(func() { p.readiness(ctx, c) })
	if c.LivenessProbe != nil {
		all.Go(func() {
			if p.fails(ctx, c, c.LivenessProbe) {
				close(unalive)
			}
		})
	}
	all.Wait()
}

// startup reports whether the container has started in time.
func (p *Pod) startup(ctx context.Context, c *corev1.Container) bool {
	failures := int32(0)
	for ok := range p.results(ctx, c, c.StartupProbe) {
		if ok {
			return true
		}
		if failures++; failures >= cmp.Or(c.StartupProbe.FailureThreshold, 3) {
			return false
		}
	}
	return false
}

// fails returns true when the probe has failed as often in a row as it may not, and false when it was ended.
func (p *Pod) fails(ctx context.Context, c *corev1.Container, probe *corev1.Probe) bool {
	failures := int32(0)
	for ok := range p.results(ctx, c, probe) {
		if ok {
			failures = 0
		} else if failures++; failures >= cmp.Or(probe.FailureThreshold, 3) {
			return true
		}
	}
	return false
}

func (p *Pod) readiness(ctx context.Context, c *corev1.Container) {
	if c.ReadinessProbe == nil {
		p.ready(true)
		return
	}
	ready, against := false, int32(0)
	for ok := range p.results(ctx, c, c.ReadinessProbe) {
		threshold := cmp.Or(c.ReadinessProbe.SuccessThreshold, 1)
		if ready {
			threshold = cmp.Or(c.ReadinessProbe.FailureThreshold, 3)
		}
		if ok == ready {
			against = 0
		} else if against++; against >= threshold {
			ready, against = ok, 0
			p.ready(ready)
		}
	}
}

func (p *Pod) ready(ready bool) {
	did := Ready
	if !ready {
		did = Unready
	}
	p.kubelet.record(Record{Pod: p.Name, Did: did, PID: p.PID()})
	p.changed(func(s *containerState) { s.setReady(ready && s.running) })
}

// results are those of a probe, one for each period.
func (p *Pod) results(ctx context.Context, c *corev1.Container, probe *corev1.Probe) func(yield func(bool) bool) {
	return func(yield func(bool) bool) {
		if !pause(ctx, time.Duration(probe.InitialDelaySeconds)*time.Second) {
			return
		}
		tick := time.NewTicker(time.Duration(cmp.Or(probe.PeriodSeconds, 10)) * time.Second)
		defer tick.Stop()
		for {
			err := p.ask(ctx, c, probe)
			if ctx.Err() != nil || !yield(err == nil) {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// ask does an HTTP probe once.
func (p *Pod) ask(ctx context.Context, c *corev1.Container, probe *corev1.Probe) error {
	if probe.HTTPGet == nil {
		return errors.New("only HTTP probes are known here")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(cmp.Or(probe.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.probeURL(c, probe.HTTPGet), http.NoBody)
	if err != nil {
		return err
	}
	req.Close = true
	for _, h := range probe.HTTPGet.HTTPHeaders {
		req.Header.Set(h.Name, h.Value)
	}
	resp, err := probeClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode >= 400 {
		return errNotReady
	}
	return nil
}
