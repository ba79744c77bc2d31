package claims

// Schema returns the name of the schema that has the tables.
func (k *Keeper) Schema() string { return k.cfg.Schema }

// Owner returns the name of the process, for people.
func (k *Keeper) Owner() string { return k.cfg.Owner }

// EscapeName returns a name as the tables have it: any bytes as text.
func EscapeName(name string) string { return escapeName(name) }

// UnescapeName returns the name that EscapeName was given.
func UnescapeName(stored string) string { return unescapeName(stored) }
