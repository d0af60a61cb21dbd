package backup

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/kinesin-io/kinesin/internal/blobplace"
	"github.com/kinesin-io/kinesin/sdk/blobs"
)

// ErrClaimed means that a place belongs to another data directory; the text says to which, and what to do.
var ErrClaimed = errors.New("claimed by another server")

// Claim says to which data directory a place belongs. The one with the highest number counts.
type Claim struct {
	Number int       `json:"number,omitempty"` // 0: there is none
	Data   string    `json:"data"`
	Host   string    `json:"host"`
	Dir    string    `json:"dir"`
	At     time.Time `json:"at"`
}

func (c *Claim) String() string {
	return fmt.Sprintf("claim %d of %s on %s, since %s", c.Number, cmp.Or(c.Dir, "an unknown directory"), cmp.Or(c.Host, "an unknown host"), c.At.UTC().Format(time.RFC3339))
}

const (
	claimBytesMax = 64 << 10
	answerSuffix  = "-answer"
)

var claimForm = regexp.MustCompile(`^[0-9]{6,9}$`)

func claimName(number int) string { return fmt.Sprintf("%06d", number) }

// newestClaim reads the claim that counts; the zero Claim if there is none.
func (p *Place) newestClaim(ctx context.Context) (Claim, error) {
	number := 0
	err := p.claims.List(ctx, func(e blobs.Entry) error {
		if n, err := strconv.Atoi(e.Name); err == nil && claimForm.MatchString(e.Name) {
			number = max(number, n)
		}
		return nil
	})
	if err != nil || number == 0 {
		return Claim{}, err
	}
	return p.claim(ctx, number)
}

func (p *Place) claim(ctx context.Context, number int) (c Claim, err error) {
	content, err := p.claims.Get(ctx, claimName(number), claimBytesMax)
	if err != nil {
		return c, err
	}
	err = json.Unmarshal(content, &c)
	c.Number = number
	if err != nil {
		err = fmt.Errorf("claim %d: %w: %w", number, ErrDamaged, err)
	}
	return c, err
}

// putClaim puts a claim. ErrExists means that another has the number.
func (p *Place) putClaim(ctx context.Context, c Claim) error {
	content, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return p.claims.PutNew(ctx, claimName(c.Number), content)
}

// TakeOver puts the claim of a data directory behind all that are there, and returns it and the one before.
func (p *Place) TakeOver(ctx context.Context, c Claim) (mine, before Claim, err error) {
	before, err = p.newestClaim(ctx)
	if err != nil {
		return c, before, err
	}
	c.Number = before.Number + 1
	if err := p.putClaim(ctx, c); errors.Is(err, blobplace.ErrExists) {
		return c, before, fmt.Errorf("another takes over at the same time: %w", err)
	} else if err != nil {
		return c, before, err
	}
	return c, before, nil
}

// hold finds the claim of a data directory, or puts the first one of a place. ErrClaimed means that the place belongs to
// another.
func (p *Place) hold(ctx context.Context, c Claim) (Claim, error) {
	for {
		last, err := p.newestClaim(ctx)
		switch {
		case err != nil:
			return Claim{}, err
		case last.Data == c.Data:
			return last, nil
		case last.Number > 0:
			return Claim{}, p.claimedError(ctx, &last, c.Data)
		}
		c.Number = 1
		if err := p.putClaim(ctx, c); !errors.Is(err, blobplace.ErrExists) {
			return c, err
		}
	}
}

// claimedError returns the error of a data directory that finds the claim of another.
func (p *Place) claimedError(ctx context.Context, to *Claim, data string) error {
	for n := to.Number - 1; n > 0; n-- {
		if c, err := p.claim(ctx, n); err == nil && c.Data == data {
			return &ReplacedError{p.location, *to}
		}
	}
	return fmt.Errorf("%s is %w: %s; give each server a place of its own, or, if that one is gone for good, "+
		"take its place with 'kinesin standby --promote --from %s --data DIR' and a new directory", p.location, ErrClaimed, to, p.location)
}

// ReplacedError means that another server took over.
type ReplacedError struct {
	Place string `json:"place"`
	By    Claim  `json:"by"`
}

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("another server took over %s: %s; this one must not run any more: its tasks run there", e.Place, &e.By)
}

// Unwrap makes the error ErrClaimed.
func (*ReplacedError) Unwrap() error { return ErrClaimed }

// answer says in the place that the server of a claim has stopped after its last recovery point.
func (p *Place) answer(ctx context.Context, number int) error {
	return p.claims.Put(ctx, claimName(number)+answerSuffix, []byte("stopped\n"))
}

// Answered reports whether the server of a claim has said that it stopped.
func (p *Place) Answered(ctx context.Context, number int) (bool, error) {
	_, err := p.claims.Get(ctx, claimName(number)+answerSuffix, claimBytesMax)
	if errors.Is(err, blobs.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Identity is what a data directory remembers of its place. It is in a file beside the store, and no part of a backup.
type Identity struct {
	Data string `json:"data"`
	// Held is the place that the directory had claimed when its server last looked.
	Held string `json:"held,omitempty"`
	// Replaced says who took over; then no server may start on the directory.
	Replaced *ReplacedError `json:"replaced,omitempty"`

	path string
}

const identityName = "backup.json"

// ReadIdentity reads what a data directory remembers; one that remembers nothing gets a new id. It writes nothing. If
// the server was replaced the error says so.
func ReadIdentity(dir string) (*Identity, error) {
	i := &Identity{path: filepath.Join(dir, identityName)}
	content, err := os.ReadFile(i.path)
	if errors.Is(err, fs.ErrNotExist) {
		i.Data = rand.Text()
		return i, nil
	}
	if err == nil {
		err = json.Unmarshal(content, i)
	}
	if err == nil && i.Data == "" {
		err = errors.New("it has no id")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; remove it if no server claimed a place of backups with this directory", i.path, err)
	}
	if i.Replaced != nil {
		return nil, fmt.Errorf("%w. To start on this directory all the same, as another server with another place, remove %s", i.Replaced, i.path)
	}
	return i, nil
}

// Write makes what the data directory remembers durable.
func (i *Identity) Write() error {
	content, err := json.Marshal(i)
	if err != nil {
		return err
	}
	file, err := openPrivate(i.path+unfinished, os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = file.Write(append(content, '\n'))
	if err := errors.Join(err, syncFile(file), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), i.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(i.path))
}
