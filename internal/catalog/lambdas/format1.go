package lambdas

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
)

// object is a JSON object.
type object map[string]json.RawMessage

// inFormat2 returns a registration of format 1 as one of format 2. In format 1 durations were numbers with their unit in
// the name, a breaker was two settings, quotas were by priority and identity, and the payload of a cron was a text.
func inFormat2(value []byte) ([]byte, error) {
	var old struct {
		Quotas *struct {
			ByPriority      map[string]object          `json:"by_priority"`
			AdmitByIdentity map[string]json.RawMessage `json:"admit_by_identity"`
		}
		Crons map[string]json.RawMessage
	}
	r, err := renamed(value)
	if err := errors.Join(err, json.Unmarshal(value, &old)); err != nil {
		return nil, err
	}
	breaker := object{}
	r.move("breaker_failures", breaker, "failures")
	r.move("breaker_window", breaker, "window")
	if len(breaker) > 0 {
		r["breaker"] = text(breaker)
	}
	if old.Quotas != nil {
		all, err := renamed(r["quotas"])
		if err != nil {
			return nil, err
		}
		delete(all, "by_priority")
		delete(all, "admit_by_identity")
		quotas := []object{all}
		for _, name := range slices.Sorted(maps.Keys(old.Quotas.ByPriority)) {
			q := object{"priority": text(name)}
			maps.Copy(q, old.Quotas.ByPriority[name])
			quotas = append(quotas, q)
		}
		for _, name := range slices.Sorted(maps.Keys(old.Quotas.AdmitByIdentity)) {
			quotas = append(quotas, object{"identity": text(name), "admit": old.Quotas.AdmitByIdentity[name]})
		}
		r["quotas"] = text(quotas)
	}
	crons := map[string]object{}
	for name, raw := range old.Crons {
		if crons[name], err = renamed(raw); err != nil {
			return nil, err
		}
		crons[name].move("payload", crons[name], "payload_text")
	}
	r["crons"] = text(crons)
	if r["objective"] != nil {
		objective, err := renamed(r["objective"])
		if err != nil {
			return nil, err
		}
		r["objective"] = text(objective)
	}
	return text(r), nil
}

// renamed reads an object without what means its default, and with durations that are texts.
func renamed(value []byte) (object, error) {
	var old object
	if err := json.Unmarshal(value, &old); err != nil {
		return nil, err
	}
	o := object{}
	for name, v := range old {
		if string(v) == "null" || string(v) == "0" {
			continue
		}
		for _, unit := range []string{"us", "ms"} {
			if base, is := strings.CutSuffix(name, "_"+unit); is {
				name, v = base, text(string(v)+unit)
			}
		}
		o[name] = v
	}
	return o, nil
}

func (o object) move(name string, to object, as string) {
	if v := o[name]; v != nil {
		delete(o, name)
		to[as] = v
	}
}

// text returns the JSON of texts and of what was read as JSON.
func text(v any) json.RawMessage {
	encoded, _ := json.Marshal(v) // cannot fail
	return encoded
}
