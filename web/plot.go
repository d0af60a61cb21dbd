package web

import "encoding/json"

// plot is what the script of the page draws: the times of the points in seconds since 1970, and for each
// series its name and values.
type plot struct {
	Times  []int64     `json:"times"`
	Names  []string    `json:"names"`
	Values [][]float64 `json:"values"`
	Until  int64       `json:"until,omitempty"` // values from then on are at least so high; 0: all are known
}

func (c *call) json(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Vary", "Accept-Encoding")
	send(c.w, c.r, text, nil)
	return nil
}

// plotRates sends starts, ends and failures per second by the minute.
func plotRates(c *call) error {
	if !c.seesFleet() {
		return c.fleetDenied()
	}
	p := plot{Names: []string{"started", "ended", "failed attempts"}, Values: make([][]float64, 3)}
	minutes := c.Source.Minutes(minutesPlotted)
	for i, m := range minutes {
		seconds := 60.0
		if i == len(minutes)-1 {
			seconds = max(1, c.now().Sub(m.At).Seconds())
		}
		ended := uint64(0)
		for _, n := range m.Ended {
			ended += n
		}
		p.Times = append(p.Times, m.At.Unix())
		for k, n := range []uint64{m.Started, ended, m.Failed} {
			p.Values[k] = append(p.Values[k], float64(n)/seconds)
		}
	}
	return c.json(p)
}

// plotForecast sends how many tasks are due in each half hour of a day.
func plotForecast(c *call) error {
	p := plot{Names: []string{"due", "± (of an estimate)"}, Values: [][]float64{{}, {}}}
	if f := c.live.due(false); f != nil {
		all, until := c.halfHours(f)
		for i := range all {
			p.Times = append(p.Times, all[i].From.Truncate(forecastStep).Unix()) // bars are as wide as the least distance
			p.Values[0] = append(p.Values[0], float64(all[i].Due))
			p.Values[1] = append(p.Values[1], float64(all[i].Error))
		}
		if !until.IsZero() {
			p.Until = until.Unix()
		}
	}
	return c.json(p)
}
