package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
)

const (
	// shipBytesPerSecond bounds how fast a store is read, so that disk and CPU are left to the tasks.
	shipBytesPerSecond = 64 << 20
	// busyPause is how long a Shipper waits while another snapshot is there, such as that of a backup by hand.
	busyPause = 500 * time.Millisecond
	// pruneEvery is how often a Shipper prunes the place.
	pruneEvery = time.Hour
)

// Source is the store that is backed up.
type Source interface {
	Snapshot(ctx context.Context) (store.Snapshot, error)
	// Writes returns a number that has grown if anything was written since.
	Writes() uint64
}

// Config is what a Shipper needs.
type Config struct {
	Place    *Place
	Source   Source
	Identity *Identity
	Claim    Claim // as which it claims a new place; without a number
	Clock    clock.Clock
	Log      *slog.Logger
	Every    time.Duration // between two recovery points
	Keep     time.Duration // how long recovery points stay

	// Pointed is called when everything up to a time is in the place, Sent with bytes that were put, Failed after a
	// recovery point that failed.
	Pointed func(at time.Time)
	Sent    func(bytes int64)
	Failed  func()
}

// Shipper puts recovery points of a store into a place. It is for one goroutine.
type Shipper struct {
	Config

	claim   Claim // the zero value: not looked up yet, since the place is away
	base    *base // nil: not read yet
	fresh   map[string]bool
	settled time.Time // since when all that is in fresh was put
	writes  uint64    // when the newest recovery point was taken
	own     bool      // that is one of this process
	pruned  time.Duration
	failing bool
}

// NewShipper finds or puts the claim of a data directory. ErrClaimed means that the place belongs to another. A place
// that does not answer is no error if the directory had claimed it before.
func NewShipper(ctx context.Context, c Config) (*Shipper, error) {
	s := &Shipper{Config: c, fresh: map[string]bool{}, pruned: clock.Mono(c.Clock)}
	err := s.look(ctx)
	if err != nil && !errors.Is(err, ErrClaimed) && c.Identity.Held == c.Place.location {
		s.failed(ctx, err)
		return s, nil
	}
	return s, err
}

// look finds out whether the place still belongs to this data directory.
func (s *Shipper) look(ctx context.Context) error {
	last, err := s.Place.hold(ctx, s.Claim)
	if replaced, is := errors.AsType[*ReplacedError](err); is {
		s.Identity.Replaced = replaced
		return errors.Join(err, s.Identity.Write())
	}
	if err != nil {
		return err
	}
	s.claim = last
	if s.Identity.Held != s.Place.location {
		s.Identity.Held = s.Place.location
		return s.Identity.Write()
	}
	return nil
}

// Run puts recovery points until ctx ends, then it returns nil; or until another server takes over, then it returns
// ErrClaimed.
func (s *Shipper) Run(ctx context.Context) error {
	s.Log.InfoContext(ctx, "backing up", slog.String("place", s.Place.location), slog.Int("claim", s.claim.Number), slog.Duration("every", s.Every))
	for ctx.Err() == nil {
		began := clock.Mono(s.Clock)
		if err := s.tick(ctx); errors.Is(err, ErrClaimed) {
			return err
		} else if ctx.Err() == nil {
			s.settle(ctx, err)
		}
		_ = clock.Sleep(ctx, s.Clock, s.Every-(clock.Mono(s.Clock)-began)) // the end of ctx is the end
	}
	return nil
}

// settle logs the first of several failures, and their end.
func (s *Shipper) settle(ctx context.Context, err error) {
	if err != nil {
		s.failed(ctx, err)
	} else if s.failing {
		s.failing = false
		s.Log.InfoContext(ctx, "backups work again", slog.String("place", s.Place.location))
	}
}

func (s *Shipper) failed(ctx context.Context, err error) {
	s.Failed()
	if !s.failing {
		s.failing = true
		s.Log.WarnContext(ctx, "no recovery point was put; tried again until it works", slog.String("place", s.Place.location), slog.Any("error", err))
	}
}

func (s *Shipper) tick(ctx context.Context) error {
	if err := s.look(ctx); err != nil {
		return err
	}
	if err := s.ship(ctx); err != nil {
		return err
	}
	now := clock.Mono(s.Clock)
	if now-s.pruned < pruneEvery {
		return nil
	}
	s.pruned = now
	points, pieces, err := s.Place.Prune(ctx, s.Clock.Now().Time(), s.Keep)
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	s.Log.DebugContext(ctx, "backups pruned", slog.Int("points", points), slog.Int("pieces", pieces))
	return nil
}

// Last puts the last recovery point of a server that has stopped, unless the place is away. If another took over, it
// then says in the place that this one has stopped.
func (s *Shipper) Last(ctx context.Context) error {
	if s.failing {
		return nil
	}
	if err := s.ship(ctx); err != nil {
		return fmt.Errorf("the last recovery point: %w", err)
	}
	if s.Identity.Replaced == nil {
		return nil
	}
	return s.Place.answer(ctx, s.claim.Number)
}

// ship puts a recovery point, if anything was written since the one before.
func (s *Shipper) ship(ctx context.Context) error {
	if s.base == nil {
		b, err := s.Place.base(ctx)
		if err != nil {
			return err
		}
		s.base = &b
	}
	began := s.Clock.Now().Time()
	writes := s.Source.Writes()
	if s.own && writes == s.writes {
		s.Pointed(began)
		return nil
	}
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return err
	}
	if len(s.fresh) == 0 || began.Sub(s.settled) > freshMax {
		clear(s.fresh)
		s.settled = began
	}
	p := shipping{newPoint: newPoint{place: s.Place, base: s.base, fresh: s.fresh}, shipper: s, snapshot: snapshot, began: clock.Mono(s.Clock)}
	b, err := p.put(ctx, began)
	err = errors.Join(err, snapshot.Close())
	s.Sent(p.sent)
	if errors.Is(err, errBaseGone) {
		s.base, s.own = nil, false
		clear(s.fresh)
	}
	if err != nil {
		return err
	}
	s.base, s.writes, s.own = &b, writes, true
	clear(s.fresh)
	s.Pointed(began)
	s.Log.DebugContext(ctx, "recovery point put", slog.String("point", b.point.name()), slog.Int64("sent_bytes", p.sent))
	return nil
}

// snapshot takes a snapshot, when no other is there.
func (s *Shipper) snapshot(ctx context.Context) (store.Snapshot, error) {
	for {
		snapshot, err := s.Source.Snapshot(ctx)
		if !errors.Is(err, store.ErrBusy) {
			return snapshot, err
		}
		if err := clock.Sleep(ctx, s.Clock, busyPause); err != nil {
			return nil, err
		}
	}
}

// shipping is a recovery point that is being put from a snapshot.
type shipping struct {
	newPoint

	shipper  *Shipper
	snapshot store.Snapshot
	began    time.Duration // in monotonic time
	read     int64         // bytes
	buffer   []byte
}

func (p *shipping) put(ctx context.Context, at time.Time) (base, error) {
	p.m.Data = p.shipper.Identity.Data
	for _, f := range p.snapshot.Files() {
		file, err := p.file(ctx, f)
		if err != nil {
			return base{}, fmt.Errorf("%s: %w", f.Name, err)
		}
		p.m.Files = append(p.m.Files, file)
	}
	return p.commit(ctx, p.shipper.claim.Number, at)
}

// file puts the pieces of a file. A data file that its base has is not read again: in one data directory no other gets
// its name.
func (p *shipping) file(ctx context.Context, f store.SnapshotFile) (File, error) {
	made := File{Name: f.Name, Bytes: f.Bytes, PieceBytes: cutOf(f.Name)}
	if had := p.base.files[f.Name]; had != nil && f.Immutable && p.base.data == p.m.Data && had.Bytes == f.Bytes && had.PieceBytes > 0 && p.base.has(had) {
		return *had, nil
	}
	file, err := p.snapshot.Open(f.Name)
	if err != nil {
		return made, err
	}
	defer file.Close() // it was read only
	for left := f.Bytes; left > 0; {
		n := min(left, made.PieceBytes)
		p.buffer = slices.Grow(p.buffer[:0], int(n))[:n]
		if _, err := io.ReadFull(file, p.buffer); err != nil {
			return made, err
		}
		sum, err := p.piece(ctx, p.buffer)
		if err != nil {
			return made, err
		}
		made.Pieces = append(made.Pieces, sum)
		left -= n
		if err := p.pace(ctx, n); err != nil {
			return made, err
		}
	}
	return made, nil
}

// pace waits until n more bytes may have been read.
func (p *shipping) pace(ctx context.Context, n int64) error {
	p.read += n
	due := p.began + time.Duration(float64(p.read)/shipBytesPerSecond*float64(time.Second))
	return clock.Sleep(ctx, p.shipper.Clock, due-clock.Mono(p.shipper.Clock))
}
