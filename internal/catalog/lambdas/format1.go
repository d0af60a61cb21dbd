package lambdas

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// object is a JSON object.
type object = map[string]any

// inFormat2 returns a registration of format 1 as one of format 2. In format 1 durations were numbers with their unit in
// the name, a breaker was two settings, quotas were by priority and identity, and the payload of a cron was a text. What
// is not as it should be is left to the reader of format 2.
func inFormat2(value []byte) ([]byte, error) {
	var r object
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if err := d.Decode(&r); err != nil {
		return nil, err
	}
	withTexts(r)
	if failures, window := take(r, "breaker_failures"), take(r, "breaker_window"); failures != nil || window != nil {
		breaker := object{"failures": failures, "window": window}
		withTexts(breaker)
		r["breaker"] = breaker
	}
	if all, is := r["quotas"].(object); is {
		byPriority, _ := take(all, "by_priority").(object)
		byIdentity, _ := take(all, "admit_by_identity").(object)
		withTexts(all)
		quotas := []object{all}
		for _, name := range slices.Sorted(maps.Keys(byPriority)) {
			q := object{"priority": name}
			if limits, is := byPriority[name].(object); is {
				maps.Copy(q, limits)
			}
			quotas = append(quotas, q)
		}
		for _, name := range slices.Sorted(maps.Keys(byIdentity)) {
			quotas = append(quotas, object{"identity": name, "admit": byIdentity[name]})
		}
		r["quotas"] = quotas
	}
	crons, _ := r["crons"].(object)
	for _, c := range crons {
		if c, is := c.(object); is {
			withTexts(c)
			if payload := take(c, "payload"); payload != nil {
				c["payload_text"] = payload
			}
		}
	}
	if o, is := r["objective"].(object); is {
		withTexts(o)
	}
	return json.Marshal(r)
}

// withTexts makes durations texts, and leaves out what means the default.
func withTexts(o object) {
	for name, v := range o {
		n, isNumber := v.(json.Number)
		for _, unit := range []string{"us", "ms"} {
			if base, is := strings.CutSuffix(name, "_"+unit); is && isNumber {
				delete(o, name)
				o[base] = n.String() + unit
			}
		}
		if v == nil || n == "0" {
			delete(o, name)
		}
	}
}

// take removes a member of an object, and returns it; nil: it is not there.
func take(o object, name string) any {
	v := o[name]
	delete(o, name)
	return v
}
