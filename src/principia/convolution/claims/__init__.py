"""What is true in this chapter, and what would refute it: one file a page."""
