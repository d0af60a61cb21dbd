package signin

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/kinesin-io/kinesin/internal/access/policy"
	"github.com/kinesin-io/kinesin/internal/access/sessions"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// refreshAhead is how long before its token ends a session asks for another one. It is longer than a page
	// streams, which comes again with a token that lasts.
	refreshAhead = 15 * time.Minute
	// refreshPause is how often a session asks at most, whatever came of it. Requests that still have the
	// cookie of before get the answer of then: a provider may take a refresh token only once.
	refreshPause = time.Minute
	// refreshedMax bounds the sessions whose answers are remembered. One too many does not ask.
	refreshedMax = 10_000
)

// refreshes remembers the answers of the last refreshPause, by session.
type refreshes struct {
	mu    sync.Mutex
	known map[string]*refreshed
	swept task.Instant // when those that are over were forgotten
}

type refreshed struct {
	at    task.Instant
	proof *sessions.Proof // nil: the provider gave no token
}

// begin returns what is known of a session, and whether the caller is to ask for it.
func (r *refreshes) begin(id string, now task.Instant) (known *refreshed, ask bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known = r.known[id]; known != nil && now < known.at.Add(refreshPause) {
		return known, false
	}
	if now >= r.swept.Add(refreshPause) {
		maps.DeleteFunc(r.known, func(_ string, of *refreshed) bool { return now >= of.at.Add(refreshPause) })
		r.swept = now
	}
	if len(r.known) >= refreshedMax {
		return nil, false
	}
	if r.known == nil {
		r.known = map[string]*refreshed{}
	}
	known = &refreshed{at: now}
	r.known[id] = known
	return known, true
}

// Refresh gives a session whose token ends soon what the provider says now of whom it is of, and reports
// whether it did. A session goes on as it is until its token ends if the provider gives none.
func (f *Flow) Refresh(ctx context.Context, s *sessions.Session) (bool, error) {
	now := f.Clock.Now()
	if s.OIDC == nil || s.OIDC.Issuer != f.Issuer || s.Refresh == "" || now < task.InstantOf(time.Unix(s.Expires, 0)).Add(-refreshAhead) {
		return false, nil
	}
	known, ask := f.refreshes.begin(string(s.ID), now)
	var err error
	if ask {
		var proof *sessions.Proof
		proof, err = f.refresh(ctx, s)
		f.refreshes.mu.Lock()
		known.proof = proof
		f.refreshes.mu.Unlock()
	}
	if known == nil {
		return false, err
	}
	f.refreshes.mu.Lock()
	defer f.refreshes.mu.Unlock()
	if known.proof == nil || known.proof.Expires <= s.Expires {
		return false, err
	}
	s.Proof = *known.proof
	return true, nil
}

// refresh asks the provider.
func (f *Flow) refresh(ctx context.Context, s *sessions.Session) (*sessions.Proof, error) {
	provider, err := f.provider(ctx)
	if err != nil {
		return nil, err
	}
	// An answer that was asked for is noted, also if the browser has gone.
	ctx, cancel := context.WithTimeout(context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, provider.Client), exchangeWithin)
	defer cancel()
	got, err := f.oauth(provider, "").TokenSource(ctx, &oauth2.Token{RefreshToken: s.Refresh}).Token()
	if err != nil {
		return nil, withoutBody(err)
	}
	text, _ := got.Extra("id_token").(string)
	if text == "" {
		return nil, errors.New("the provider gave no ID token for the refresh token")
	}
	p := f.Policy()
	verified, err := provider.Verify(ctx, p, text)
	if err != nil {
		return nil, err
	}
	if verified.Subject != s.OIDC.Subject {
		return nil, errors.New("the provider gave the ID token of somebody else for the refresh token")
	}
	if _, err := p.ByClaims(verified.Claims); err != nil {
		return nil, err
	}
	return proofOf(verified, got), nil
}

// proofOf returns what a session keeps of what the provider gave.
func proofOf(verified *policy.Verified, got *oauth2.Token) *sessions.Proof {
	return &sessions.Proof{OIDC: &verified.Claims, Expires: verified.Expiry.Unix(), Refresh: got.RefreshToken}
}
