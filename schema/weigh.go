package schema

import (
	"maps"
	"slices"
)

// cost is what applying a schema to one value sets in motion at that same value.
type cost struct {
	state        state
	applications int // schemas that apply, each as often as it is reached
	chain        int // the longest way through references and branches
}

type state int

const (
	unweighed state = iota
	weighing        // on the way being followed
	weighed
)

// weigh refuses a schema that reaches itself without moving into the value, so that no value could
// ever be decided, and one that fans out: twenty definitions that each refer twice to the next make
// a million applications out of one.
func (s *survey) weigh() error {
	for _, at := range slices.Sorted(maps.Keys(s.positions)) {
		if err := s.positions[at].weigh(); err != nil {
			return err
		}
	}
	return nil
}

func (p *position) weigh() error {
	if p.cost.state == weighed {
		return nil
	}
	p.cost.state = weighing
	total, chain := 1, 0
	for _, e := range p.edges {
		if e.to.cost.state == weighing {
			return refuse(string(p.pointer.AppendToken(e.keyword)), "%q leads back to %s for the same value, so nothing is ever decided; let it pass through properties or items",
				e.keyword, place(e.to.pointer))
		}
		if err := e.to.weigh(); err != nil {
			return err
		}
		total += e.to.cost.applications
		chain = max(chain, e.to.cost.chain)
		if total > maxApplications {
			return refuse(string(p.pointer), "its references and branches make one value visit more than %d schemas; share less", maxApplications)
		}
	}
	p.cost = cost{state: weighed, applications: total, chain: chain + 1}
	if p.cost.chain > maxChain {
		return refuse(string(p.pointer), "more than %d references and branches follow one another before the value is entered; flatten them", maxChain)
	}
	return nil
}

// describesObject tells whether only objects can be meant: by type, by properties without a type, or
// by what applies to the same value. Weighing has made sure that this ends.
func (p *position) describesObject() bool {
	if p.types != nil {
		return len(p.types) == 1 && p.types[0] == "object"
	}
	if p.properties {
		return true
	}
	choices := map[string]bool{} // anyOf, oneOf: every branch must be an object
	for _, e := range p.edges {
		switch e.keyword {
		case "$ref", "allOf":
			if e.to.describesObject() {
				return true
			}
		case "anyOf", "oneOf":
			all, seen := choices[e.keyword]
			choices[e.keyword] = (all || !seen) && e.to.describesObject()
		}
	}
	return choices["anyOf"] || choices["oneOf"]
}
