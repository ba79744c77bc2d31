package claims

// Schema returns the name of the schema that has the tables.
func (k *Keeper) Schema() string { return k.cfg.Schema }

// EscapeName returns a name as the tables have it: any bytes as text.
func EscapeName(name string) string { return escapeName(name) }

// UnescapeName returns the name that EscapeName was given.
func UnescapeName(stored string) string { return unescapeName(stored) }

// FenceSQL returns a query that finds and locks the grant's row, as LockRow does, for a larger statement.
func (c *Claim) FenceSQL() (sql string, args []any) { return c.s.k.sql.fence, []any{c.s.id, c.seq} }
