"""What a result, a trace or a cost looks like: figures drawn from files, the same bytes for the same input.

The door for results is `draw.draw_result(folder)`.
"""
