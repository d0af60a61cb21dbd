package sdk

import (
	"context"
	"fmt"
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// AddMembers schedules tasks as members of a group which has as many members as at says, and returns their
// ids. Each call to the server adds all of its tasks or none; with an error, the ids are of those that were
// added before. The same call again changes nothing, so that a program which does not know what became of a
// call makes it again with the same at. ErrStaleSeq says that the group has another number of members, and
// ErrTooLate that it was sealed, or has ended. Members have no Key of their own.
func (c *Client) AddMembers(ctx context.Context, group string, at int, items []Item) (ids []ID, err error) {
	err = c.addMembers(ctx, group, at, items, func(r *kinesinv1.AddMembersResponse) {
		for _, id := range r.GetIds() {
			ids = append(ids, ID(id))
		}
	})
	return ids, err
}

// addMembers is AddMembers, and calls added with the answer to each call to the server.
func (c *Client) addMembers(ctx context.Context, group string, at int, items []Item, added func(*kinesinv1.AddMembersResponse)) error {
	for start := 0; start < len(items); {
		// The payloads are encoded before the call is cut, since a codec may make them larger.
		most := min(len(items), start+itemsPerCallMax)
		encoded, large, err := c.encodeMembers(ctx, group, at+start, items[start:most])
		if err != nil {
			return err
		}
		n := fitting(encoded)
		request := &kinesinv1.AddMembersRequest{Group: group, At: countOf(at + start)}
		for i := range encoded[:n] {
			request.Items = append(request.Items, encoded[i].wire(nil))
		}
		begun := c.cfg.Clock.Now()
		results := make([]Result, len(encoded))
		large = slices.DeleteFunc(large, func(u upload) bool { return u.at >= n })
		c.putAll(ctx, large, results)
		if err := firstError(results); err != nil {
			return err
		}
		r, err := call(ctx, c, "add members to a group", c.backend.groups.AddMembers, request)
		if err != nil {
			return err
		}
		c.putLateAgain(ctx, begun, large, results)
		if err := firstError(results); err != nil {
			return err
		}
		added(r)
		start += n
	}
	return nil
}

// encodeMembers returns members as they are stored, and the blobs that they need. A member has a key of the
// group's, for which it is encoded.
func (c *Client) encodeMembers(ctx context.Context, group string, at int, items []Item) (encoded []Item, large []upload, err error) {
	if c.cfg.Encode == nil && c.cfg.Blobs == nil {
		return items, nil, nil
	}
	id, err := task.ParseID(group)
	if err != nil {
		return items, nil, nil //nolint:nilerr // the server refuses such an id
	}
	encoded = make([]Item, len(items))
	for i := range items {
		if items[i].Key != "" {
			encoded[i] = items[i] // the server refuses it
			continue
		}
		key := task.MemberKey(id, uint32(at+i))
		one, err := c.encodeGroupItem(ctx, items[i], key)
		if err != nil {
			return nil, nil, fmt.Errorf("member %d: %w", at+i, err)
		}
		if c.isLarge(one.Payload) {
			one.Key = key
			u, taken := upload{at: i}, Result{}
			if u.take(&one, &taken, false); taken.Err != nil {
				return nil, nil, fmt.Errorf("member %d: %w", at+i, taken.Err)
			}
			one.Key = ""
			large = append(large, u)
		}
		one, more, err := c.offloadWhatFollows(one, i)
		if err != nil {
			return nil, nil, fmt.Errorf("member %d: %w", at+i, err)
		}
		encoded[i], large = one, append(large, more...)
	}
	return encoded, large, nil
}

// groupFollowUps returns tasks that follow after a group as the wire has them. Their ids are not known yet,
// so that they are encoded for their lambda alone.
func (c *Client) groupFollowUps(ctx context.Context, edge string, items []Item) (wire []*kinesinv1.ScheduleItem, err error) {
	encoded := make([]Item, len(items))
	for i := range items {
		if encoded[i], err = c.encodeGroupItem(ctx, items[i], ""); err != nil {
			return nil, fmt.Errorf("%s: %w", edge, err)
		}
	}
	// The server takes 128 KiB of them together.
	large, err := c.offloadFollowUps(&encoded, min(c.cfg.BlobLimit, followUpInlineMax), 0)
	if err == nil {
		err = c.putFollowUps(ctx, large)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", edge, err)
	}
	return wireItems(encoded), nil
}

// encodeGroupItem returns a task of a group with encoded payloads, its own and those of what follows it.
func (c *Client) encodeGroupItem(ctx context.Context, item Item, key string) (Item, error) {
	if c.cfg.Encode != nil {
		payload, err := c.cfg.Encode(ctx, item.Lambda, key, [16]byte{}, item.Payload)
		if err != nil {
			return item, fmt.Errorf("encode the payload of a %s task: %w", item.Lambda, err)
		}
		item.Payload = payload
	}
	return c.encodeWhatFollows(ctx, item)
}

func firstError(results []Result) error {
	for i := range results {
		if results[i].Err != nil {
			return results[i].Err
		}
	}
	return nil
}
