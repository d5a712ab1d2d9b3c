package effects

// event is what can happen to an effect.
type event int

const (
	asked     event = iota // a process wants to do it
	succeeded              // a process says that it happened
	failed                 // a process says that it did not
	lost                   // the run that it belongs to is over
	settled                // a person says what became of it
)

// after is the state that an event leads to, or why the event is refused. own:
// the event comes from the process that executes the effect. again: executing
// it again would do no harm, since it changes nothing or only together with its
// completion.
//
// A success never becomes a failure nor the reverse, what a person settled
// stays, and the way back to Executing does not exist.
func (s State) after(e event, own, again bool) (State, error) {
	switch e {
	case asked:
		if s == Executing && !own && !again {
			return Uncertain, nil // only the process that executed it could know, and it is gone
		}
		return s, nil
	case lost:
		switch {
		case s != Executing:
			return s, nil
		case again:
			return Failed, nil
		}
		return Uncertain, nil
	case settled:
		switch s {
		case Uncertain:
			return Settled, nil
		case Settled:
			return s, ErrSettled
		}
		return s, ErrCertain
	}
	end := Completed
	if e == failed {
		end = Failed
	}
	switch {
	case s == Settled:
		return s, ErrSettled
	case s == Uncertain && !own:
		return s, ErrUncertain
	case s == Executing || s == Uncertain || s == end:
		return end, nil
	}
	return s, ErrContrary
}
