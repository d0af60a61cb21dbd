package ingest

// room is how many rows, and bytes of their bodies, rejected tasks take.
type room struct {
	rows  int
	bytes int64
}

func (a room) add(b room) room { return room{max(0, a.rows+b.rows), max(0, a.bytes+b.bytes)} }

// part returns one part in n, and never less than one row.
func (a room) part(n int) room { return room{max(1, a.rows/n), max(1, a.bytes/int64(n))} }

// holds reports whether b fits into a.
func (a room) holds(b room) bool { return b.rows <= a.rows && b.bytes <= a.bytes }

// fits returns errFull or errSenderFull if there is no room for one more row. r.mu is held.
func (r *Rejected) fits(sender string, one room) error {
	all := room{r.Max, r.BytesMax}
	switch {
	case !all.holds(r.taken.add(one)):
		return errFull
	case sender == "":
		return nil
	case !all.part(senderParts).holds(r.sender[sender].add(one)), !all.part(sendersParts).holds(r.senders.add(one)):
		return errSenderFull
	}
	return nil
}

// count notes that rows came, or went. r.mu is held, or nobody else has r.
func (r *Rejected) count(sender string, change room) {
	r.taken = r.taken.add(change)
	if sender == "" {
		return
	}
	r.senders = r.senders.add(change)
	if r.sender == nil {
		r.sender = map[string]room{}
	}
	if left := r.sender[sender].add(change); left.rows > 0 {
		r.sender[sender] = left
	} else {
		delete(r.sender, sender)
	}
}
