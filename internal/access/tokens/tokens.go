// Package tokens keeps the bearer tokens that an operator made: one control row of kind "token" for each
// identity, with the hash of its token, its grants and its expiry. Any server of an installation accepts
// them.
package tokens

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Kind is the kind of the control rows.
const Kind = "token"

const (
	// TokensMax bounds the tokens of an installation.
	TokensMax = 1000
	// LifetimeMin is the shortest time until a token expires, if it does.
	LifetimeMin = time.Minute
	// LifetimeMax is the longest.
	LifetimeMax = 10 * 365 * 24 * time.Hour

	// refreshEvery is how old what was read may be before the rows are read again: so soon that a token that
	// was revoked elsewhere is refused within 5 s, with what a stream takes to ask again.
	refreshEvery = 2 * time.Second
	// unknownEvery is how often, at most, an unknown token makes the rows be read again.
	unknownEvery = time.Second
	// keptAfterEnd is how long the row of a token that was revoked or has expired is kept, to say so.
	keptAfterEnd = 30 * 24 * time.Hour

	secretPrefix = "kinesin_" // by which scanners find a leaked token
	secretBytes  = 32
)

// Sentinels of the tokens. The text of an error says more.
var (
	ErrUnknown = errors.New("unknown token")
	ErrExpired = errors.New("expired token")
	ErrRevoked = errors.New("revoked token")
	ErrExists  = errors.New("the name is taken")
)

// Token is a token without its secret.
type Token struct {
	access.Identity

	Created, Expires, Revoked task.Instant // zero: never
	CreatedBy                 string

	hash    [sha256.Size]byte
	version uint64
}

// hasEnded reports whether the token is refused.
func (t *Token) hasEnded(now task.Instant) error {
	switch {
	case t.Revoked != 0:
		return fmt.Errorf("%w: the token of %s was revoked at %s", ErrRevoked, t.Name, t.Revoked.Time().UTC().Format(time.RFC3339))
	case t.Expires != 0 && now >= t.Expires:
		return fmt.Errorf("%w: the token of %s expired at %s, and it is %s", ErrExpired, t.Name,
			t.Expires.Time().UTC().Format(time.RFC3339), now.Time().UTC().Format(time.RFC3339))
	}
	return nil
}

// Registry finds tokens. It reads the rows when it is asked, so that tokens that nobody uses cost nothing. It
// is safe for concurrent use.
type Registry struct {
	rows  store.ControlRows
	clock clock.Clock
	log   *slog.Logger

	known *control.OnDemand[index]

	mu       sync.Mutex
	problems map[string]bool // names of rows that cannot be read and were logged
}

// index has the tokens as they are looked up.
type index struct {
	byHash map[[sha256.Size]byte]*Token
	byName map[string]*Token
}

// NewRegistry returns a registry over the rows of a store.
func NewRegistry(rows store.ControlRows, c clock.Clock, log *slog.Logger) *Registry {
	r := &Registry{rows: rows, clock: c, log: log, problems: map[string]bool{}}
	r.known = control.NewOnDemand(control.CopyConfig[index]{Kind: Kind, Rows: rows, Clock: c, Log: log, Build: r.indexOf})
	return r
}

// Find returns the token with this secret. Its errors are ErrUnknown, ErrExpired, ErrRevoked, and those of
// the store: what was read more than refreshEvery ago decides nothing.
func (r *Registry) Find(ctx context.Context, secret string) (Token, error) {
	if !strings.HasPrefix(secret, secretPrefix) {
		return Token{}, ErrUnknown
	}
	return r.FindHash(ctx, sha256.Sum256([]byte(secret)))
}

// FindHash is Find for the SHA-256 of a secret.
func (r *Registry) FindHash(ctx context.Context, hash [sha256.Size]byte) (Token, error) {
	t, err := r.find(ctx, hash, refreshEvery)
	if errors.Is(err, ErrUnknown) { // another server may have made it a moment ago
		t, err = r.find(ctx, hash, unknownEvery)
	}
	return t, err
}

func (r *Registry) find(ctx context.Context, hash [sha256.Size]byte, age time.Duration) (Token, error) {
	return r.look(ctx, age, func(known *index) *Token { return known.byHash[hash] })
}

// look returns a token that is known, and whether it has ended.
func (r *Registry) look(ctx context.Context, age time.Duration, find func(*index) *Token) (Token, error) {
	var t *Token
	if err := r.known.Look(ctx, age, func(known *index) { t = find(known) }); err != nil {
		return Token{}, err
	}
	if t == nil {
		return Token{}, ErrUnknown
	}
	return *t, t.hasEnded(r.clock.Now())
}

func (r *Registry) indexOf(ctx context.Context, rows []store.Control) index {
	known := index{make(map[[sha256.Size]byte]*Token, len(rows)), make(map[string]*Token, len(rows))}
	for i := range rows {
		t, err := decode(&rows[i])
		if err != nil {
			r.noteUnreadable(ctx, rows[i].Name, err)
			continue
		}
		known.byHash[t.hash], known.byName[t.Name] = t, t
	}
	return known
}

func (r *Registry) noteUnreadable(ctx context.Context, name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.problems[name] && len(r.problems) < TokensMax {
		r.problems[name] = true
		r.log.ErrorContext(ctx, "skipping a token row that cannot be read", slog.String("identity", name), slog.Any("error", err))
	}
}

// Named returns the token of an identity. Its errors are those of Find.
func (r *Registry) Named(ctx context.Context, name string) (Token, error) {
	return r.look(ctx, refreshEvery, func(known *index) *Token { return known.byName[name] })
}

// List returns all tokens by name.
func (r *Registry) List(ctx context.Context) ([]Token, error) {
	var all []Token
	err := r.known.Look(ctx, 0, func(known *index) {
		for _, t := range known.byName {
			all = append(all, *t)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Token) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Create makes the token of an identity and returns its secret, which is not kept. Lifetime zero means that
// it does not expire. ErrExists: the identity has a token that has not ended.
func (r *Registry) Create(ctx context.Context, id access.Identity, lifetime time.Duration, by string) (Token, string, error) {
	all, err := r.List(ctx)
	if err != nil {
		return Token{}, "", err
	}
	now := r.clock.Now()
	t := Token{Identity: id, Created: now, CreatedBy: by, version: 1}
	if lifetime != 0 {
		t.Expires = now.Add(lifetime)
	}
	kept := 0
	for i := range all {
		had := &all[i]
		ended := had.hasEnded(now) != nil
		switch {
		case had.Name == id.Name && !ended:
			return Token{}, "", fmt.Errorf("%w: %s has a token; revoke it first", ErrExists, id.Name)
		case had.Name == id.Name:
			t.version = had.version + 1
		case ended && max(had.Revoked, had.Expires).Add(keptAfterEnd) < now:
			_ = r.rows.DeleteControl(ctx, store.Control{Kind: Kind, Name: had.Name, Version: had.version}) // the next call tries again
		default:
			kept++
		}
	}
	if kept >= TokensMax {
		return Token{}, "", fmt.Errorf("%w: there are %d tokens: revoke those that nobody uses", task.ErrInvalid, TokensMax)
	}
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // never fails: crypto/rand
	secret := secretPrefix + base64.RawURLEncoding.EncodeToString(raw)
	t.hash = sha256.Sum256([]byte(secret))
	if err := r.put(ctx, &t); err != nil {
		if errors.Is(err, store.ErrConflict) {
			err = fmt.Errorf("%w: %s was changed at this moment", ErrExists, id.Name)
		}
		return Token{}, "", err
	}
	return t, secret, nil
}

// revokeTriesMax bounds how often a revocation is tried again because the row was changed meanwhile.
const revokeTriesMax = 4

// Revoke ends the token of an identity. One that has ended stays as it is.
func (r *Registry) Revoke(ctx context.Context, name string) (Token, error) {
	for range revokeTriesMax {
		var had *Token
		if err := r.known.Look(ctx, 0, func(known *index) { had = known.byName[name] }); err != nil {
			return Token{}, err
		}
		if had == nil {
			return Token{}, fmt.Errorf("%w: identity %q has none that `kinesin token create` made", ErrUnknown, name)
		}
		if had.Revoked != 0 {
			return *had, nil
		}
		t := *had
		t.Revoked, t.version = r.clock.Now(), had.version+1
		if err := r.put(ctx, &t); !errors.Is(err, store.ErrConflict) {
			return t, err
		}
	}
	return Token{}, fmt.Errorf("%w: the token of %s was changed at the same time", store.ErrConflict, name)
}

func (r *Registry) put(ctx context.Context, t *Token) error {
	row, err := encode(t)
	if err != nil {
		return err
	}
	err = r.rows.PutControl(ctx, row)
	if err != nil && !errors.Is(err, store.ErrUnknown) {
		return err
	}
	var now *Token
	if err := r.known.Look(ctx, 0, func(known *index) { now = known.byName[t.Name] }); err != nil {
		return err
	}
	if now != nil && now.version == t.version && now.hash == t.hash && now.Revoked == t.Revoked {
		return nil // also if the outcome of the write was unknown
	}
	return err
}

// record is the stored form of a token. An absent field means its zero value.
type record struct {
	Hash      string   `json:"sha256"`
	Grants    []string `json:"grants"`
	Created   int64    `json:"created_us"`
	Expires   int64    `json:"expires_us,omitempty"`
	Revoked   int64    `json:"revoked_us,omitempty"`
	CreatedBy string   `json:"created_by,omitempty"`
}

func encode(t *Token) (store.Control, error) {
	value, err := json.Marshal(record{
		Hash: hex.EncodeToString(t.hash[:]), Grants: t.Grants.Strings(), Created: int64(t.Created), Expires: int64(t.Expires),
		Revoked: int64(t.Revoked), CreatedBy: t.CreatedBy,
	})
	return store.Control{Kind: Kind, Name: t.Name, Version: t.version, Value: value}, err
}

func decode(row *store.Control) (*Token, error) {
	var rec record
	if err := json.Unmarshal(row.Value, &rec); err != nil {
		return nil, fmt.Errorf("%w: token row: %w", store.ErrCorrupt, err)
	}
	grants, err := access.ParseGrants(rec.Grants)
	if err != nil {
		return nil, fmt.Errorf("%w: token row: %w", store.ErrCorrupt, err)
	}
	t := &Token{
		Identity: access.Identity{Name: row.Name, Grants: grants}, Created: task.Instant(rec.Created), Expires: task.Instant(rec.Expires),
		Revoked: task.Instant(rec.Revoked), CreatedBy: rec.CreatedBy, version: row.Version,
	}
	hash, err := hex.DecodeString(rec.Hash)
	if copy(t.hash[:], hash) != sha256.Size || len(hash) != sha256.Size || err != nil {
		return nil, fmt.Errorf("%w: token row: want a SHA-256 of %d hexadecimal digits", store.ErrCorrupt, 2*sha256.Size)
	}
	return t, nil
}
