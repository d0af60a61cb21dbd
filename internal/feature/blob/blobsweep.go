// Package blob deletes the blobs that no task needs any more. It lists all blobs now and then, and reads
// the row of the task that each name holds. It never deletes what a row names, nor anything younger than
// YoungMax, whose task may not be stored yet. A blob of a task that is to follow another has no such row
// before that follows: then all rows are read, once a day, for what they name in what follows them.
package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk/blobs"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// Every is how long it waits between two passes.
	Every = time.Hour
	// YoungMax is the age below which a blob is kept although no row names it. A client that took longer to
	// schedule its task puts the blob once more (package sdk).
	YoungMax = 24 * time.Hour
	// LookEvery is how long it waits before it reads all rows again for blobs of follow-ups.
	LookEvery = 24 * time.Hour
	// doubtMax bounds the blobs that it looks for then. Others wait until there are fewer.
	doubtMax = 200_000
	// rowsMax is how many rows it reads at a time.
	rowsMax = 100

	// ownerName is the blob that says to which installation a place belongs, and ownerBytesMax its largest
	// size.
	ownerName     = "installation"
	ownerBytesMax = 64
	// controlKind and controlName name the row with the random name of this installation.
	controlKind = "blobs"
	controlName = "installation"
)

// Blobs is where the blobs are.
type Blobs interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string, bytesMax int64) ([]byte, error)
	Delete(ctx context.Context, name string) error
	List(ctx context.Context, each func(blobs.Entry) error) error
}

// Rows is what it needs of the store.
type Rows interface {
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
	Control(ctx context.Context, kind, name string) (store.Control, error)
	PutControl(ctx context.Context, c store.Control) error
}

// Lambdas finds lambdas by name; catalog.ErrUnknown if there is none.
type Lambdas interface {
	Find(ctx context.Context, name string) (*catalog.Entry, error)
}

// Groups knows which blobs groups need besides those that a row names.
type Groups interface {
	// MemberID returns the id of the task that is a member of a group.
	MemberID(ctx context.Context, group task.ID, index uint32) (task.ID, error)
	// FollowUpBlobs returns the blobs of tasks that may follow after groups.
	FollowUpBlobs(ctx context.Context) (map[[16]byte]bool, error)
}

// Chains knows which blobs tasks need that are to follow others.
type Chains interface {
	// FollowUpBlobs calls each with those that the rows of tasks name in what follows these. It reads all
	// rows.
	FollowUpBlobs(ctx context.Context, each func(blob [16]byte)) error
}

// Sweeper deletes blobs. All its fields but Groups and Chains are required. Its methods are called by one
// goroutine at a time.
type Sweeper struct {
	Blobs   Blobs
	Rows    Rows
	Lambdas Lambdas
	KeyedID func(lambda uint32, key string) task.ID // the id of the tasks with a key
	Groups  Groups                                  // nil: there are none
	Chains  Chains                                  // nil: blobs of follow-ups are kept
	Clock   clock.Clock
	Log     *slog.Logger

	looked task.Instant          // when Chains was asked last
	missed map[[16]byte]struct{} // blobs that nothing named then
}

// ErrForeign means that blobs of another installation are in the same place.
var ErrForeign = errors.New("the place belongs to another installation, whose tasks this one does not know: nothing is deleted there; give each installation a directory or a prefix of its own")

// Run sweeps until ctx ends. It logs what fails, and tries again at the next pass.
func (s *Sweeper) Run(ctx context.Context) error {
	for {
		n, err := s.Sweep(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.Log.WarnContext(ctx, "blobs not swept", slog.Int("deleted", n), slog.Any("error", err))
		case n > 0:
			s.Log.InfoContext(ctx, "blobs deleted", slog.Int("deleted", n))
		}
		if clock.Sleep(ctx, s.Clock, Every) != nil {
			return nil //nolint:nilerr // the end of ctx is the way to stop
		}
	}
}

// Sweep deletes what no task needs, and returns how many blobs that were. It stops at the first error.
func (s *Sweeper) Sweep(ctx context.Context) (deleted int, err error) {
	if isOurs, err := s.claim(ctx); err != nil || !isOurs {
		return 0, err
	}
	p := pass{Sweeper: s, before: s.Clock.Now().Add(-YoungMax).Time()}
	if err := s.Blobs.List(ctx, func(e blobs.Entry) error { return p.look(ctx, &e) }); err != nil {
		return p.deleted, err
	}
	if err := p.judge(ctx); err != nil {
		return p.deleted, err
	}
	return p.deleted, p.judgeFollowUps(ctx)
}

// claim reports whether the place belongs to this installation. One that belongs to none does so from the
// next pass on, unless another installation writes its name there meanwhile.
func (s *Sweeper) claim(ctx context.Context) (isOurs bool, err error) {
	own, err := s.installation(ctx)
	if err != nil {
		return false, err
	}
	found, err := s.Blobs.Get(ctx, ownerName, ownerBytesMax)
	if errors.Is(err, blobs.ErrNotFound) {
		return false, s.Blobs.Put(ctx, ownerName, []byte(own))
	}
	if err == nil && string(found) != own {
		err = ErrForeign
	}
	return err == nil, err
}

// installation returns the random name of this installation, which it makes once.
func (s *Sweeper) installation(ctx context.Context) (string, error) {
	row, err := s.Rows.Control(ctx, controlKind, controlName)
	if !errors.Is(err, store.ErrNotFound) {
		return string(row.Value), err
	}
	err = s.Rows.PutControl(ctx, store.Control{Kind: controlKind, Name: controlName, Version: 1, Value: []byte(rand.Text())})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return "", err
	}
	row, err = s.Rows.Control(ctx, controlKind, controlName)
	return string(row.Value), err
}

// pass is one pass over all blobs.
type pass struct {
	*Sweeper

	before  time.Time // only what was put before is deleted
	some    []candidate
	deleted int
	planned map[[16]byte]bool // blobs of tasks that may follow after groups; nil: not read yet
	doubt   []candidate       // blobs of follow-ups, which are not there
}

// candidate is a blob that is old enough to be deleted.
type candidate struct {
	name string
	blob [16]byte
	id   task.ID // of its task; zero: its lambda is gone
}

func (p *pass) look(ctx context.Context, e *blobs.Entry) error {
	if !e.Put.Before(p.before) {
		return nil
	}
	if strings.HasPrefix(e.Name, blobs.TempPrefix) {
		return p.remove(ctx, e.Name)
	}
	owner, blob, ok := task.ParseBlobName(e.Name)
	if !ok {
		return nil // not ours
	}
	id, err := p.idOf(ctx, &owner)
	if err != nil {
		return err
	}
	if p.some = append(p.some, candidate{e.Name, blob, id}); len(p.some) < rowsMax {
		return nil
	}
	return p.judge(ctx)
}

// idOf returns the id of the task whose payload a blob is; zero if its lambda is gone, and its tasks with it.
func (p *pass) idOf(ctx context.Context, o *task.BlobOwner) (task.ID, error) {
	if o.Key == "" {
		return o.Task, nil
	}
	if group, index, isMember := task.ParseMemberKey(o.Key); isMember && p.Groups != nil {
		return p.Groups.MemberID(ctx, group, index)
	}
	l, err := p.Lambdas.Find(ctx, o.Lambda)
	if errors.Is(err, catalog.ErrUnknown) {
		return task.ID{}, nil
	}
	if err != nil {
		return task.ID{}, err
	}
	return p.KeyedID(l.Ref, o.Key), nil
}

// judge deletes those of the candidates that no row names.
func (p *pass) judge(ctx context.Context) error {
	some := p.some
	p.some = nil
	rows, err := p.rowsOf(ctx, some)
	if err != nil {
		return fmt.Errorf("read the rows of blobs: %w", err)
	}
	for _, c := range some {
		if row := rows[c.id]; row != nil && p.needs(row, c.blob) {
			continue
		}
		if p.planned == nil && p.Groups != nil { // after the rows: a task gets its row before its group forgets it
			if p.planned, err = p.Groups.FollowUpBlobs(ctx); err != nil {
				return fmt.Errorf("read what follows after groups: %w", err)
			}
		}
		switch {
		case p.planned[c.blob]:
			continue
		case task.OfFollowUp(c.blob):
			if len(p.doubt) < doubtMax {
				p.doubt = append(p.doubt, c)
			}
			continue
		}
		if err := p.remove(ctx, c.name); err != nil {
			return err
		}
	}
	return nil
}

// judgeFollowUps deletes those blobs of follow-ups that no row named when all were read, and not the last
// time either: one that moves, such as that of a task which is redriven, may be missed once. A row that has
// ended stays for a day at least and names what followed it, so that none is missed because its task ends.
func (p *pass) judgeFollowUps(ctx context.Context) error {
	now := p.Clock.Now()
	if len(p.doubt) == 0 || p.Chains == nil || !p.looked.IsZero() && now < p.looked.Add(LookEvery) {
		return nil
	}
	unnamed := make(map[[16]byte]struct{}, len(p.doubt))
	for _, c := range p.doubt {
		unnamed[c.blob] = struct{}{}
	}
	if err := p.Chains.FollowUpBlobs(ctx, func(blob [16]byte) { delete(unnamed, blob) }); err != nil {
		return fmt.Errorf("look for blobs of follow-ups: %w", err)
	}
	last := p.missed
	p.looked, p.missed = now, unnamed
	for some := range slices.Chunk(p.doubt, rowsMax) {
		rows, err := p.rowsOf(ctx, some) // again: a follow-up may be there since
		if err != nil {
			return fmt.Errorf("read the rows of blobs: %w", err)
		}
		for _, c := range some {
			_, isUnnamed := unnamed[c.blob]
			_, wasUnnamed := last[c.blob]
			if row := rows[c.id]; !isUnnamed || !wasUnnamed || row != nil && p.needs(row, c.blob) {
				continue
			}
			if err := p.remove(ctx, c.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowsOf returns the rows of the tasks of some blobs.
func (p *pass) rowsOf(ctx context.Context, some []candidate) (map[task.ID]*task.Task, error) {
	found := map[task.ID]*task.Task{}
	var ids []task.ID
	for _, c := range some {
		if _, named := found[c.id]; !named && !c.id.IsZero() {
			found[c.id] = nil
			ids = append(ids, c.id)
		}
	}
	if len(ids) == 0 {
		return found, nil
	}
	rows, err := p.Rows.Tasks(ctx, ids)
	for i := range rows {
		if !rows[i].ID.IsZero() {
			found[rows[i].ID] = &rows[i]
		}
	}
	return found, err
}

// needs reports whether a row needs a blob: it names it, and its retention is not over. One that cannot be
// read may.
func (p *pass) needs(row *task.Task, blob [16]byte) bool {
	switch {
	case row.State == task.Unknown:
		return true
	case row.State.IsEnd() && row.ExpireAt <= p.Clock.Now():
		return false
	}
	return row.Blob != nil && row.Blob.ID == blob
}

func (p *pass) remove(ctx context.Context, name string) error {
	if err := p.Blobs.Delete(ctx, name); err != nil {
		return err
	}
	p.deleted++
	return nil
}
