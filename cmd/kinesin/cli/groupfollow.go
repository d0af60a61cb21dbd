package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// followUpBytesMax bounds a file of tasks that follow.
const followUpBytesMax = 1 << 20

// readFollowUps reads tasks that follow from a file, - for stdin: one task, or a list of them. Without a path
// there are none.
func (a *app) readFollowUps(flag, path string) ([]sdk.Item, error) {
	if path == "" {
		return nil, nil
	}
	r, err := a.open(path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, followUpBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	if len(text) > followUpBytesMax {
		return nil, usagef("--%s: more than %d bytes", flag, followUpBytesMax)
	}
	items, err := parseFollowUps(bytes.TrimSpace(text))
	if err != nil {
		return nil, usagef("--%s: %v", flag, err)
	}
	return items, nil
}

func parseFollowUps(text []byte) ([]sdk.Item, error) {
	if !bytes.HasPrefix(text, []byte("[")) {
		item, err := parseFollowUp(text)
		return []sdk.Item{item}, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if len(list) == 0 || len(list) > task.GroupFollowUpsMax {
		return nil, fmt.Errorf("a list of %d tasks: want 1 to %d", len(list), task.GroupFollowUpsMax)
	}
	items := make([]sdk.Item, len(list))
	for i := range list {
		var err error
		if items[i], err = parseFollowUp(list[i]); err != nil {
			return nil, fmt.Errorf("task %d of the list: %w", i+1, err)
		}
	}
	return items, nil
}
