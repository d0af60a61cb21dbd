package node

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/blob"
	"github.com/kinesin-io/kinesin/internal/feature/chain"
	"github.com/kinesin-io/kinesin/internal/feature/group"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// composeBlobs makes what deletes blobs. It comes after inbound, without which blobs of follow-ups are kept.
func (n *Node) composeBlobs(c *Config) {
	if c.Blobs == nil {
		return
	}
	var chains blob.Chains
	if n.inbound != nil {
		chains = chainBlobs{n}
	}
	n.blobs = &blob.Sweeper{Blobs: c.Blobs, Rows: n.store, Lambdas: n.catalog, KeyedID: task.KeyedID, Groups: groupBlobs{n.store}, Chains: chains, Clock: c.Clock, Log: c.Log}
}

// groupBlobs tells the sweeper of blobs which of them groups need.
type groupBlobs struct{ group.Store }

// MemberID returns the id of the task that is a member of a group.
func (b groupBlobs) MemberID(ctx context.Context, id task.ID, index uint32) (task.ID, error) {
	return group.MemberID(ctx, b.Store, id, index)
}

// FollowUpBlobs returns the blobs of tasks that may follow after groups, and of what follows these.
func (b groupBlobs) FollowUpBlobs(ctx context.Context) (map[[16]byte]bool, error) {
	blobs := map[[16]byte]bool{}
	err := group.EachFollowUp(ctx, b.Store, func(raw []byte) error {
		item := &kinesinv1.ScheduleItem{}
		if err := proto.Unmarshal(raw, item); err != nil {
			return fmt.Errorf("%w: what follows after a group: %w", store.ErrCorrupt, err)
		}
		for blob := range chain.Blobs(&kinesinv1.Followups{Then: []*kinesinv1.ScheduleItem{item}}) {
			if id := blob.GetId(); len(id) == 16 {
				blobs[[16]byte(id)] = true
			}
		}
		return nil
	})
	return blobs, err
}

// chainBlobs tells the sweeper of blobs which of them tasks need that are to follow others.
type chainBlobs struct{ *Node }

// chainRowsMax is how many rows that name blobs in what follows them are in memory at a time.
const chainRowsMax = 1000

// FollowUpBlobs calls each with the blobs that rows name in what follows their tasks.
func (n chainBlobs) FollowUpBlobs(ctx context.Context, each func(blob [16]byte)) error {
	of := inbound.Selection{By: access.All(), Live: true, Ended: true, Only: func(t *task.Task) bool {
		return t.Chain != nil && !t.Chain.FollowSum.IsZero()
	}}
	for position := []byte(nil); ; {
		page, err := n.inbound.Page(ctx, &of, position, chainRowsMax)
		switch {
		case err != nil:
			return err
		case page.Unread > 0:
			return fmt.Errorf("%w: %d rows, and what follows their tasks may name blobs", store.ErrCorrupt, page.Unread)
		}
		for i := range page.Rows {
			f, err := n.chains.Read(ctx, &page.Rows[i].Task)
			if errors.Is(err, store.ErrNotFound) {
				continue // nobody can create what follows it any more
			}
			if err != nil {
				return err
			}
			for blob := range chain.Blobs(f) {
				if id := blob.GetId(); len(id) == 16 {
					each([16]byte(id))
				}
			}
		}
		if position = page.Next; len(position) == 0 {
			return nil
		}
	}
}
