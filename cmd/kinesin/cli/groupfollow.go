package cli

import (
	"encoding/json"
	"fmt"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// readFollowUps reads tasks that follow a group from a file, - for stdin: one task, or a list of them.
// Without a path there are none.
func (a *app) readFollowUps(flag, path string) ([]sdk.Item, error) {
	if path == "" {
		return nil, nil
	}
	data, err := a.readFollowFile(flag, path)
	if err != nil {
		return nil, err
	}
	items, err := parseFollowUps(data)
	if err != nil {
		return nil, usagef("--%s: %v", flag, err)
	}
	return items, nil
}

func parseFollowUps(data []byte) ([]sdk.Item, error) {
	whole, err := oneJSON(data)
	if err != nil {
		return nil, err
	}
	if whole[0] != '[' {
		item, err := parseFollowTask(whole, "", 0)
		return []sdk.Item{item}, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(whole, &list); err != nil {
		return nil, err
	}
	if len(list) == 0 || len(list) > task.GroupFollowUpsMax {
		return nil, fmt.Errorf("a list of %d tasks: want 1 to %d", len(list), task.GroupFollowUpsMax)
	}
	items := make([]sdk.Item, len(list))
	for i := range list {
		if items[i], err = parseFollowTask(list[i], fmt.Sprintf("[%d]", i), 0); err != nil {
			return nil, err
		}
	}
	return items, nil
}
