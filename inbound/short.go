package inbound

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// An id begins with its form, of shortFormChars, and its head, of shortHeadChars: the millisecond in which the task was
	// made, or 48 bits of the hash of its key. A shortened id has both at least.
	shortFormChars = 2
	shortHeadChars = api.ShortIDCharsMin - shortFormChars
	// shortRowsMax bounds the rows that are read to find whole ids, which takes about two seconds, and shortRowsMetered
	// bounds them where each row that is read costs money.
	shortRowsMax     = 1_000_000
	shortRowsMetered = setRowsPage
)

// WholeIDs returns ids with each shortened one replaced by the id that begins so, among the tasks that the caller may
// read. A shortened id that begins no id stays as it is, and then names no task. One that begins several is refused.
//
// No store has an order of ids: a task that was not dispatched is found by its partition and due time alone. So all
// tasks that the caller may read are looked at, up to a bound, once for all ids of a call.
func (in *Inbound) WholeIDs(ctx context.Context, ids []string) ([]string, error) {
	byHead := map[string][]int{}
	for i, id := range ids {
		if !task.IsShortened(id) {
			continue
		}
		if err := refusal.CheckShort(id, "task"); err != nil {
			return nil, err
		}
		head := id[shortFormChars:api.ShortIDCharsMin]
		byHead[head] = append(byHead[head], i)
	}
	if len(byHead) == 0 {
		return ids, nil
	}
	fits, err := in.idsThatBegin(ctx, ids, byHead)
	if err != nil {
		return nil, err
	}
	whole := slices.Clone(ids)
	for i, id := range ids {
		if whole[i], err = refusal.WholeID(id, "task", fits[i]); err != nil {
			return nil, err
		}
	}
	return whole, nil
}

// idsThatBegin returns, for each shortened id by its place in ids, the ids of tasks that begin so: at most one more than a
// refusal lists. byHead has the places of the shortened ids by their heads.
func (in *Inbound) idsThatBegin(ctx context.Context, ids []string, byHead map[string][]int) (map[int][]string, error) {
	leave, err := in.enterWholeSet(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	of := Selection{By: access.From(ctx).Grants, Live: true, Ended: true, Only: func(t *task.Task) bool {
		var head [shortHeadChars]byte
		base64.RawURLEncoding.Encode(head[:], t.ID[:shortHeadChars*3/4])
		return len(byHead[string(head[:])]) > 0
	}}
	rowsMax := shortRowsMax
	if in.Store.EndedExpire() {
		rowsMax = shortRowsMetered
	}
	fits, examined := map[int][]string{}, 0
	for position, more := []byte(nil), true; more; {
		page, err := in.Page(ctx, &of, position, setRowsRead)
		if err != nil {
			return nil, refusal.Wire(err)
		}
		for i := range page.Rows {
			id := in.PublicID(&page.Rows[i])
			for _, at := range byHead[id[shortFormChars:api.ShortIDCharsMin]] {
				// A task that ends meanwhile is met as live and as ended.
				if found := fits[at]; strings.HasPrefix(id, ids[at]) && len(found) <= refusal.IDsShown && !slices.Contains(found, id) {
					fits[at] = append(found, id)
				}
			}
		}
		examined += page.Examined
		position, more = page.Next, len(page.Next) > 0
		if more && examined >= rowsMax {
			return nil, api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED,
				"a shortened id is looked for among at most %d tasks, and there are more: want the whole id, which `kinesin list -o wide` and -o json print, or a key", rowsMax)
		}
	}
	return fits, nil
}
