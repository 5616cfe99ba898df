"""What an owner's terms mean at a moment: hours, appointments, who may stay, what is too hot."""
